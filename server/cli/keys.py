"""`vidgen keys`: API keys, and what the tenants that they belong to may use."""

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

from cyclopts import App, Parameter

from server.cli.desk import client_of
from server.cli.extra import need_extra
from server.cli.options import Reach, ReachOf
from server.cli.queue_text import when
from server.cli.report import Reporter, pairs, table
from server.cli.settings import gather_settings
from vidgen.cli.options import Common, CommonOf, flowing
from vidgen.cli.place import home_of
from vidgen.errors import BadRequest

keys = App(name="keys", help="Make and end API keys; set what each tenant may use.")
tenants = App(name="tenants", help="Who shares the workers, and how much each may use.")
keys.command(tenants)
_Made = TypeVar("_Made")
_NONE = "none"


def _local(reach: Reach, common: Common, do: Callable[[Any], _Made]) -> _Made:
    """Do something with this machine's database, which is made if it is not there."""
    need_extra("keys")
    from server.cli.local_desk import told
    from server.cli.places import open_or_make

    flags = {} if reach.database is None else {"database": reach.database}
    settings, _ = gather_settings(flags, common)
    db = open_or_make(settings.with_home(home_of(common).root.absolute()))
    try:
        return told(lambda: do(db))
    finally:
        db.close()


@keys.command
@flowing
def create(
    *,
    name: Annotated[str, Parameter(help="What it is for; shown in lists.")] = "unnamed",
    tenant: Annotated[
        str, Parameter(help="Whose it is: keys of one tenant see the same jobs.")
    ] = "default",
    scopes: Annotated[
        str, Parameter(help="What it allows: create, read, admin (all, and administration).")
    ] = "create,read",
    models: Annotated[
        str | None, Parameter(help="Models that it may use, e.g. toyworld,wan2.1-t2v-1.3b.")
    ] = None,
    reach: ReachOf = Reach(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Make an API key. It is shown now and never again: only its hash is kept.

    The first key closes the server: from then on each request needs one. Keys can be made while no
    server runs. With --server the one that is given must have the scope admin.
    """
    listed = [item.strip() for item in scopes.split(",") if item.strip()]
    allowed = None if models is None else [item.strip() for item in models.split(",")]
    asked = {"name": name, "tenant": tenant, "scopes": listed, "models": allowed}
    client = client_of(reach)
    made: dict[str, Any]
    if client is not None:
        made = client.post("/v1/keys", asked)
    else:
        made = _local(reach, common, lambda db: _created(db, asked))
    facts = [(word, str(made[word])) for word in ("key", "id", "tenant", "name")]
    facts.append(("scopes", ", ".join(made["scopes"])))
    Reporter(common).answer(made, pairs(facts))


def _created(db: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """Make a key of what the API too would make one of."""
    from server.api.fields import KeyCreate, parse
    from server.queue.keys import create_key

    good = parse(KeyCreate, asked)
    made, plain = create_key(db, good.tenant, good.name, good.scopes, good.models)
    return {**dataclasses.asdict(made), "key": plain}


@keys.command(name="ls")
@flowing
def list_all(
    *,
    tenant: Annotated[str | None, Parameter(help="Of this tenant only.")] = None,
    reach: ReachOf = Reach(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """List the API keys, ended ones too; what they are is not kept."""
    client = client_of(reach)
    if client is not None:
        query = {} if tenant is None else {"tenant": tenant}
        found = client.listed(client.get("/v1/keys", query))
    else:
        found = _local(reach, common, lambda db: _listed(db, tenant))
    rows = [
        (
            item["id"],
            item["tenant"],
            item["name"],
            ",".join(item["scopes"]),
            "all" if item["models"] is None else ",".join(item["models"]),
            "never" if item["last_used_at"] is None else when(item["last_used_at"]),
            "" if item["revoked_at"] is None else when(item["revoked_at"]),
        )
        for item in found
    ]
    text = table(("KEY", "TENANT", "NAME", "SCOPES", "MODELS", "LAST USED", "ENDED"), rows)
    Reporter(common).answer({"keys": found}, text if rows else "There is no key.")


def _listed(db: Any, tenant: str | None) -> list[dict[str, Any]]:
    from server.queue.keys import list_keys

    return [dataclasses.asdict(item) for item in list_keys(db, tenant)]


@keys.command
@flowing
def revoke(
    key: Annotated[str, Parameter(help="Its id, as ls shows it.")],
    /,
    *,
    reach: ReachOf = Reach(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """End an API key; jobs that it made go on."""
    client = client_of(reach)
    if client is not None:
        client.delete(f"/v1/keys/{quote(key, safe='')}")
    else:
        _local(reach, common, lambda db: _revoked(db, key))
    Reporter(common).answer({"id": key, "revoked": True}, f"{key}  ended")


def _revoked(db: Any, key: str) -> None:
    from server.queue.keys import revoke_key

    revoke_key(db, key)


@tenants.command(name="ls")
@flowing
def list_tenants(
    *,
    reach: ReachOf = Reach(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """List the tenants with their weights and bounds."""
    client = client_of(reach)
    if client is not None:
        found = client.listed(client.get("/v1/tenants"))
    else:
        found = _local(reach, common, _all_tenants)
    names = ("id", *_BOUNDS)
    rows = [tuple("" if item[name] is None else str(item[name]) for name in names)
            for item in found]  # fmt: skip
    head = tuple(name.upper().replace("_", " ") for name in names)
    Reporter(common).answer({"tenants": found}, table(head, rows) if rows else "No tenant yet.")


def _all_tenants(db: Any) -> list[dict[str, Any]]:
    from server.queue.tenants import list_tenants

    return [dataclasses.asdict(item) for item in list_tenants(db)]


_BOUNDS = ("weight", "max_queued", "max_running", "gpu_seconds_per_day", "budget_per_month")


@tenants.command(name="set")
@flowing
def set_tenant(
    tenant: Annotated[str, Parameter(help="Its name.")],
    /,
    *,
    weight: Annotated[
        str | None, Parameter(help="Share of the workers against other tenants.", metavar="NUMBER")
    ] = None,
    max_queued: Annotated[
        str | None, Parameter(help="Waiting jobs; none: the installation's.", metavar="NUMBER")
    ] = None,
    max_running: Annotated[
        str | None, Parameter(help="Jobs at once; none: any number.", metavar="NUMBER")
    ] = None,
    gpu_seconds_per_day: Annotated[
        str | None, Parameter(help="GPU seconds a day (UTC); none: any.", metavar="NUMBER")
    ] = None,
    budget_per_month: Annotated[
        str | None, Parameter(help="Cost a month (UTC); none: any.", metavar="NUMBER")
    ] = None,
    reach: ReachOf = Reach(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Set the weight and bounds of a tenant; what is not named stays, none takes a bound away."""
    given = {
        "weight": _number("weight", weight, float),
        "max_queued": _number("max_queued", max_queued, int),
        "max_running": _number("max_running", max_running, int),
        "gpu_seconds_per_day": _number("gpu_seconds_per_day", gpu_seconds_per_day, float),
        "budget_per_month": _number("budget_per_month", budget_per_month, float),
    }
    bounds = {name: value for name, value in given.items() if value is not None}
    bounds = {name: None if value == _NONE else value for name, value in bounds.items()}
    if not bounds:
        raise BadRequest("Give at least one bound, e.g. --weight 2.")
    client = client_of(reach)
    if client is not None:
        found = client.patch(f"/v1/tenants/{quote(tenant, safe='')}", bounds)
    else:
        found = _local(reach, common, lambda db: _set(db, tenant, bounds))
    facts = [(name, "none" if found[name] is None else str(found[name])) for name in _BOUNDS]
    Reporter(common).answer(found, pairs([("tenant", found["id"]), *facts]))


def _number(name: str, text: str | None, kind: type[int] | type[float]) -> Any:
    if text is None or text == _NONE:
        return text
    try:
        return kind(text)
    except ValueError:
        raise BadRequest(f"{name}={text!r} is neither a number nor none.", field=name) from None


def _set(db: Any, tenant: str, bounds: dict[str, Any]) -> dict[str, Any]:
    """Set bounds that the API too would take."""
    from server.api.fields import TenantUpdate, parse
    from server.queue.tenants import set_bounds

    good = parse(TenantUpdate, bounds).model_dump(exclude_unset=True)
    return dataclasses.asdict(set_bounds(db, tenant, **good))
