"""`vidgen worker`: one worker, for a server elsewhere or beside."""

from typing import Annotated

from cyclopts import Parameter

from server.cli.extra import need_extra
from server.cli.options import SettingsFlags, SettingsOf
from server.cli.settings import gather_settings
from vidgen.cli.options import Common, CommonOf, flags_given, flowing
from vidgen.cli.place import home_of, settings_of
from vidgen.models import resolve


@flowing
def worker(
    *,
    device: Annotated[
        str | None,
        Parameter(help="auto, cpu, cpu:<n>, cuda or cuda:<n>.", show_default=False),
    ] = None,
    tenant: Annotated[
        list[str] | None,
        Parameter(help="Work for this tenant only; may be given several times.", negative=()),
    ] = None,
    model: Annotated[
        list[str] | None,
        Parameter(help="Make clips of this model only; may be given several times.", negative=()),
    ] = None,
    flags: SettingsOf = SettingsFlags(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> int:
    """Work for a server on another machine or device.

    It takes jobs from the database that --database names and puts results into --store, so both
    must be those of the server. --pool is the pool that it serves. Workers on other machines need
    Postgres, and a store that all reach (s3://, gs://, az://, or the same network folder).

    SIGTERM drains: the clip that runs may end, or its job is handed back. A second one ends the
    process at once: that clip is lost, and the job goes on from the last finished one when its
    lease has run out. Exit code 70 means that a step hung: whatever starts workers should start it
    again, as systemd and vidgen serve do.
    """
    need_extra("worker")
    for name in model or ():
        resolve(name)
    settings, _ = gather_settings(flags_given(flags), common)
    given = {} if device is None else {"device": device}
    asked = settings_of(common, given).own("device", "auto")
    home = home_of(common).root.absolute()
    settings = settings.with_home(home)
    from server.api.logs import set_up_logs
    from server.cli.places import refuse_other_hosts
    from server.cli.preflight import check_places
    from server.worker.main import WorkerOptions, run_worker

    set_up_logs(settings)
    check_places(settings, home)
    refuse_other_hosts(settings)
    options = WorkerOptions(
        device=asked,
        tenants=None if tenant is None else tuple(tenant),
        models=None if model is None else tuple(model),
    )
    return run_worker(settings, home, options)
