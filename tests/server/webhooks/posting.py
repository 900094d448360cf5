"""What the tests of deliveries do again and again."""

from datetime import UTC, datetime

from sqlalchemy import select
from standardwebhooks import Webhook

from server.database.tables import deliveries
from server.queue.job import Job
from server.webhooks.deliver import deliver_due
from server.webhooks.endpoints import Endpoints
from tests.server.queue.making import Scene, run_through

ALL = ["video.completed", "video.failed", "video.cancelled"]


def deliver(scene: Scene, **options: object) -> int:
    """Try what is due, without jitter."""
    return deliver_due(scene.db, scene.settings, scene.clock, jitter=lambda: 0.0, **options)  # type: ignore[arg-type]


def endpoints(scene: Scene) -> Endpoints:
    """Return the endpoints of the scene."""
    return Endpoints(scene.db, scene.settings, scene.clock)


def complete(scene: Scene, **changes: object) -> Job:
    """Ask for a job and run it through."""
    scene.ask(**changes)  # type: ignore[arg-type]
    return run_through(scene.claim())


def rows(scene: Scene) -> list[dict[str, object]]:
    """Return the deliveries as they are written down."""
    with scene.db.read() as connection:
        found = connection.execute(select(deliveries).order_by(deliveries.c.id)).mappings()
        return [dict(row) for row in found]


def verify(secret: str, headers: dict[str, str], body: bytes) -> None:
    """Compare with another library's signature; its own check would look at the time of day."""
    at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
    wanted = Webhook(secret).sign(headers["webhook-id"], at, body.decode())
    assert wanted in headers["webhook-signature"].split(" ")
