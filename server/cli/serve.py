"""`vidgen serve`: the API with its workers on this machine."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from server.cli.devices import worker_devices
from server.cli.extra import need_extra, need_studio
from server.cli.options import SettingsFlags, SettingsOf
from server.cli.report import Reporter, pairs, table
from server.cli.settings import gather_settings, shown_value
from server.settings import ServerSettings
from vidgen.cli.options import Common, CommonOf, flags_given, flowing
from vidgen.cli.place import home_of, settings_of
from vidgen.settings import Setting


@dataclass(frozen=True, slots=True)
class Serving:
    """What one `vidgen serve` is about, all decided."""

    settings: ServerSettings
    given: dict[str, Setting]
    home: Path
    devices: tuple[str, ...]


_KEYS = "asked for; vidgen keys create makes another one, vidgen keys ls lists them"
_NO_KEYS = "vidgen keys create makes one; while there is none, this machine alone may ask"


@flowing
def serve(
    *,
    workers: Annotated[
        int | None,
        Parameter(
            help="Workers to start; 0: only the API. [default: one for each GPU, else one CPU "
            "worker]",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        Parameter(help="What they run on: auto, cpu, cuda or cuda:1.", show_default=False),
    ] = None,
    ui: Annotated[
        bool, Parameter(help="Serve the studio too, at /ui.", show_default=False)
    ] = False,
    dry_run: Annotated[
        bool,
        Parameter(
            help="Print the settings, where each comes from, and what would be started.",
            show_default=False,
        ),
    ] = False,
    flags: SettingsOf = SettingsFlags(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> int:
    """Serve the API with its workers: durable jobs over HTTP.

    Jobs, keys and results are in one database and one store, and outlive every process: whatever
    is killed, what was accepted is finished. Other machines join with vidgen worker, which needs a
    Postgres database and a store that all of them reach.

    Each setting is an option here, or VIDGEN_<NAME>, or a line in the table [server] of a settings
    file; vidgen keys create makes an API key, without which only this machine may use the server.

    Ctrl-C or SIGTERM drains: running clips may end, or are handed back and gone on with later. A
    second one kills all processes at once: the clips that run are lost, and their jobs go on from
    the last finished one when their leases have run out.
    """
    need_extra("serve")
    if ui:
        need_studio()
    serving = _decided(workers, device, flags, common)
    reporter = Reporter(common)
    if dry_run:
        _show(serving, reporter)
        return 0
    return _run(serving, reporter, ui=ui)


def _run(serving: Serving, reporter: Reporter, *, ui: bool) -> int:
    """Run all processes until told to end; return the exit code."""
    from server.api.logs import set_up_logs
    from server.cli.preflight import check_places, check_port
    from server.cli.supervisor import Child, Supervisor

    check_places(serving.settings, serving.home)
    check_port(serving.settings)
    set_up_logs(serving.settings)
    order: dict[str, Any] = {
        "settings": serving.settings.model_dump(mode="json"),
        "home": str(serving.home),
    }
    environ = threads_for(serving.devices)
    children = [
        Child(f"worker {name}", {**order, "part": "worker", "worker": {"device": name}}, environ)
        for name in serving.devices
    ]
    api = Child("api", {**order, "part": "api", "studio": ui})
    return Supervisor(api, children).run(lambda at: _tell(serving, at, reporter, ui=ui))


def _decided(
    workers: int | None, device: str | None, flags: SettingsFlags, common: Common
) -> Serving:
    settings, given = gather_settings(flags_given(flags), common)
    asked = settings_of(common, {} if device is None else {"device": device}).own("device", "auto")
    home = home_of(common).root.absolute()
    return Serving(settings.with_home(home), given, home, worker_devices(asked, workers))


def threads_for(devices: tuple[str, ...]) -> dict[str, str]:
    """Return variables that share the cores among several CPU workers, unless they are set."""
    if len(devices) < 2 or not devices[0].startswith("cpu") or "OMP_NUM_THREADS" in os.environ:
        return {}
    cores = len(os.sched_getaffinity(0))
    return {"OMP_NUM_THREADS": str(max(1, cores // len(devices)))}


def _tell(serving: Serving, address: str, reporter: Reporter, *, ui: bool) -> None:
    """Say where it is and what to do next."""
    settings = serving.settings
    keyed = _has_keys(settings)
    reporter.emit(
        "listening",
        url=address,
        workers=list(serving.devices),
        database=shown_value(settings.database),
        store=shown_value(settings.store),
        work=settings.work,
    )
    reporter.say(
        pairs(
            [
                ("address", f"{address}  (what it offers: {address}/openapi.json)"),
                *([("studio", f"{address}/ui/")] if ui else []),
                ("workers", ", ".join(serving.devices) or "none; start some with vidgen worker"),
                ("database", shown_value(settings.database)),
                ("results", shown_value(settings.store)),
                ("work", settings.work),
                ("API keys", _KEYS if keyed else _NO_KEYS),
                (
                    "to try",
                    f"{'VIDGEN_API_KEY=.. ' if keyed else ''}vidgen generate "
                    f'"a big red ball moves left" --server {address}',
                ),
            ]
        )
    )


def _has_keys(settings: ServerSettings) -> bool:
    from server.cli.places import open_existing
    from server.queue.keys import asks_for_keys

    db = open_existing(settings)
    try:
        return asks_for_keys(db)
    finally:
        db.close()


def _show(serving: Serving, reporter: Reporter) -> None:
    rows = []
    for name in ServerSettings.model_fields:
        found = serving.given.get(name)
        value = shown_value(getattr(serving.settings, name))
        rows.append((name, value, "default" if found is None else found.origin))
    data = {
        "event": "plan",
        "dry_run": True,
        "workers": list(serving.devices),
        "settings": {name: {"value": value, "origin": origin} for name, value, origin in rows},
    }
    workers = f"workers: {', '.join(serving.devices) or 'none'}"
    reporter.answer(data, f"{table(('SETTING', 'VALUE', 'ORIGIN'), rows)}\n{workers}")
