"""Metrics: the state of all jobs as Prometheus reads it, asked of the database at a scrape.

Every API process gives the same figures here; what each counts of itself is in `counters`.
"""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import generate_latest
from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from sqlalchemy import Connection, func, select

from server.api.counters import Counters
from server.database import Database
from server.database.tables import deliveries, jobs, rates, workers
from server.queue.standing import standing_of
from server.queue.tallies import KINDS, Kind, Tally, read


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
            yield from _of_fleet(connection)
            found = read(connection)
        for name, kind in KINDS.items():
            yield _tallied(f"vidgen_{name}", kind, found.get(name, {}))


def _tallied(name: str, kind: Kind, found: Mapping[tuple[str, ...], Tally]) -> Metric:
    told = found or ({} if kind.labels else {(): Tally({})})
    if kind.bounds is not None:
        histogram = HistogramMetricFamily(name, kind.text, labels=kind.labels)
        for labels, tally in told.items():
            buckets = _buckets(kind.bounds, tally)
            histogram.add_metric(labels, buckets=buckets, sum_value=tally.seconds)
        return histogram
    counter = CounterMetricFamily(name, kind.text, labels=kind.labels)
    for labels, tally in told.items():
        value = tally.seconds if kind.seconds else sum(tally.times.values())
        counter.add_metric(labels, value)
    return counter


def _buckets(bounds: tuple[float, ...], tally: Tally) -> list[tuple[str, float]]:
    """Return how many are at most as long as each bound, also those of bounds that are no more."""
    everything = sum(tally.times.values())
    finite = {bound: times for bound, times in tally.times.items() if bound is not None}
    made = [(bound, sum(n for at, n in finite.items() if at <= bound)) for bound in bounds]
    return [*((str(bound), float(times)) for bound, times in made), ("+Inf", float(everything))]


def _of_jobs(connection: Connection) -> Iterator[Metric]:
    known = GaugeMetricFamily(
        "vidgen_jobs_in_state", "Jobs that are not deleted, by state.", labels=("state",)
    )
    chosen = select(jobs.c.state, func.count().label("jobs")).group_by(jobs.c.state)
    for row in connection.execute(chosen):
        known.add_metric((row.state,), row.jobs)
    yield known
    load = standing_of(connection).everyone
    yield GaugeMetricFamily("vidgen_queue_depth", "Waiting jobs.", load.queued)
    yield GaugeMetricFamily("vidgen_queue_backlog_seconds", "Predicted work.", load.backlog)
    ratio = GaugeMetricFamily(
        "vidgen_pred_ratio",
        "Measured over predicted time.",
        labels=("model", "device", "attention"),
    )
    for row in connection.execute(select(rates)):
        ratio.add_metric((row.model, row.device, row.attention), row.ratio)
    yield ratio


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
