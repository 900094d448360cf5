"""Worker: a process that makes jobs on one device, and which jobs it fits."""

from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy import Row

LIVE = ("starting", "idle", "busy")


class Needs(Protocol):
    """What a job asks of a worker."""

    @property
    def tenant(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def pool(self) -> str: ...
    @property
    def device_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A worker as it says of itself; the columns are explained in the tables.

    profile     DeviceProfile.as_dict
    tenants     that it serves, None: all; models likewise
    free_bytes  device memory that a job could have: free now, and what the worker itself holds
                and would give up for a job (warm weights)
    """

    id: str
    host: str
    pid: int
    device: str
    profile: dict[str, Any]
    pool: str
    free_bytes: int
    version: str
    tenants: list[str] | None = None
    models: list[str] | None = None
    state: str = "starting"
    job_id: str | None = None
    warm: dict[str, Any] = field(default_factory=dict)
    started_at: float = 0.0
    heartbeat_at: float = 0.0
    step_at: float | None = None

    @property
    def total_bytes(self) -> int:
        """Return the memory of its device."""
        return int(self.profile["memory_bytes"])

    @property
    def usable_bytes(self) -> int:
        """Return the memory that its next job can have: while one runs, all counts as coming."""
        return self.free_bytes if self.state == "idle" else self.total_bytes

    def serves(self, pool: str, tenant: str, model: str) -> bool:
        """Whether it takes jobs of a pool, tenant and model."""
        return (
            pool == self.pool
            and (self.tenants is None or tenant in self.tenants)
            and (self.models is None or model in self.models)
        )

    def could_fit(self, job: Needs) -> bool:
        """Whether it takes such jobs and its device is large enough."""
        return self._takes(job) and job.device_bytes <= self.total_bytes

    def fits(self, job: Needs) -> bool:
        """Whether it takes such jobs and its next job can have enough memory."""
        return self._takes(job) and job.device_bytes <= self.usable_bytes

    def _takes(self, job: Needs) -> bool:
        return self.serves(job.pool, job.tenant, job.model)

    @staticmethod
    def of(row: Row[Any]) -> "Worker":
        """Make it from a whole row of the table of workers."""
        return Worker(**row._mapping)
