"""Metrics: the state of all jobs as Prometheus reads it, computed from the database at a scrape."""

from collections.abc import Iterable, Iterator

from prometheus_client import generate_latest
from prometheus_client.core import CollectorRegistry, CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.metrics_core import SummaryMetricFamily
from sqlalchemy import Connection, func, select

from server.api.counters import Counters
from server.database import Database
from server.database.tables import deliveries, events, jobs, rates, usage, workers
from server.queue.standing import standing_of

STAGES = ("encode", "condition", "denoise", "decode", "write")


def metrics_text(database: Database, counters: Counters) -> bytes:
    """Return all metrics in Prometheus' format."""
    registry = CollectorRegistry()
    registry.register(_Collector(database))
    return generate_latest(registry) + generate_latest(counters.registry)


class _Collector:
    def __init__(self, database: Database) -> None:
        self._database = database

    def describe(self) -> Iterable[Metric]:
        """Name nothing ahead: that would ask the database twice."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Ask the database."""
        with self._database.read() as connection:
            yield from _of_jobs(connection)
            yield from _of_times(connection)
            yield from _of_work(connection)
            yield from _of_fleet(connection)


def _of_jobs(connection: Connection) -> Iterator[Metric]:
    code = jobs.c.error["code"].as_string()
    found = GaugeMetricFamily(
        "vidgen_jobs", "Jobs that are known, by state and error code.", labels=("state", "code")
    )
    chosen = select(jobs.c.state, code.label("code"), func.count().label("jobs"))
    for row in connection.execute(chosen.group_by(jobs.c.state, code)):
        found.add_metric((row.state, row.code or ""), row.jobs)
    yield found
    load = standing_of(connection).everyone
    yield GaugeMetricFamily("vidgen_queue_depth", "Waiting jobs.", load.queued)
    yield GaugeMetricFamily("vidgen_queue_backlog_seconds", "Predicted work.", load.backlog)


def _of_times(connection: Connection) -> Iterator[Metric]:
    waited = select(func.count(), func.sum(jobs.c.started_at - jobs.c.created_at)).where(
        jobs.c.started_at.is_not(None)
    )
    count, total = connection.execute(waited).one()
    yield SummaryMetricFamily(
        "vidgen_queue_wait_seconds", "From creation to the first step.", count, total or 0.0
    )
    stopped = select(func.count(), func.sum(jobs.c.completed_at - jobs.c.stop_at)).where(
        jobs.c.state == "cancelled", jobs.c.stop_at.is_not(None)
    )
    count, total = connection.execute(stopped).one()
    yield SummaryMetricFamily(
        "vidgen_cancel_latency_seconds", "From a cancel to the stop.", count, total or 0.0
    )
    stages = [func.sum(jobs.c.usage["stages"][name].as_float()).label(name) for name in STAGES]
    steps = func.sum(jobs.c.usage["steps"].as_integer() * jobs.c.usage["clips"].as_integer())
    row = connection.execute(select(func.count(), steps.label("steps"), *stages)).one()
    spent = CounterMetricFamily("vidgen_stage_seconds", "Time by stage.", labels=("stage",))
    for name in STAGES:
        spent.add_metric((name,), getattr(row, name) or 0.0)
    yield spent
    yield SummaryMetricFamily(
        "vidgen_denoise_step_seconds", "Time of a denoising step.", row.steps or 0,
        row.denoise or 0.0,
    )  # fmt: skip


def _of_work(connection: Connection) -> Iterator[Metric]:
    used = CounterMetricFamily("vidgen_gpu_seconds", "Work done.", labels=("tenant",))
    chosen = select(usage.c.tenant, func.sum(usage.c.gpu_seconds).label("seconds"))
    for row in connection.execute(chosen.group_by(usage.c.tenant)):
        used.add_metric((row.tenant,), row.seconds)
    yield used
    ratio = GaugeMetricFamily(
        "vidgen_pred_ratio",
        "Measured over predicted time.",
        labels=("model", "device", "attention"),
    )
    for row in connection.execute(select(rates)):
        ratio.add_metric((row.model, row.device, row.attention), row.ratio)
    yield ratio
    for name, kind, text in (
        ("vidgen_collapse", "clip.retried", "Clips that were made again."),
        ("vidgen_interrupted", "job.interrupted", "Jobs that lost their worker."),
    ):
        counted = select(func.count()).where(events.c.type == kind)
        yield CounterMetricFamily(name, text, connection.execute(counted).scalar_one())


def _of_fleet(connection: Connection) -> Iterator[Metric]:
    fleet = GaugeMetricFamily("vidgen_workers", "Workers.", labels=("pool", "state"))
    chosen = select(workers.c.pool, workers.c.state, func.count().label("workers"))
    for row in connection.execute(chosen.group_by(workers.c.pool, workers.c.state)):
        fleet.add_metric((row.pool, row.state), row.workers)
    yield fleet
    sent = GaugeMetricFamily("vidgen_webhook_deliveries", "Webhooks.", labels=("state",))
    counted = select(deliveries.c.state, func.count().label("deliveries"))
    for row in connection.execute(counted.group_by(deliveries.c.state)):
        sent.add_metric((row.state,), row.deliveries)
    yield sent
