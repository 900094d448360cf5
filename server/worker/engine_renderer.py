"""EngineRenderer: clips made by vidgen's engine on this process's device."""

import ctypes
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server.queue.job import Job
from server.worker.session import Session
from vidgen.cli.making import quiet_libraries
from vidgen.cli.place import find_device
from vidgen.device import DeviceProfile
from vidgen.errors import BadRequest
from vidgen.home import Home
from vidgen.plan import Plan
from vidgen.settings import gather

if TYPE_CHECKING:
    from vidgen.engine import Engine


class EngineRenderer:
    """One device; the weights of the model that was used last stay loaded."""

    def __init__(self, device: str, home: Path) -> None:
        """Take a device and test its attention backends.

        device  as torch calls it: cpu or cuda:0
        Raises  Unsupported, BadRequest
        """
        self._home = Home(home)
        environ = {name: os.environ[name] for name in ("VIDGEN_OFFLINE",) if name in os.environ}
        settings = gather(
            {"device": device}, config=None, home=self._home, environ=environ, folder=home
        )
        self._offline = settings.switch("offline")
        found = find_device(settings, self._home, only_planning=False)
        self._device = found.torch_name
        self._profile = found.profile
        self._key: tuple[str, str, str] | None = None
        self._engine: Engine | None = None

    @property
    def profile(self) -> DeviceProfile:
        """The device, with the attention backends that passed their test."""
        return self._profile

    def open(self, job: Job, payload: dict[str, Any], folder: Path) -> Session:
        """Begin or go on with a job: one clip for a request, a chain for a story.

        Raises  BadRequest when it has become another number of clips than was promised
        """
        session: Session
        if "story" in payload:
            from server.worker.chain_session import ChainSession

            session = ChainSession(self, payload, folder)
        else:
            from server.worker.clip_session import ClipSession

            session = ClipSession(self, payload["request"], folder)
        if session.num_clips != job.clips:
            session.close()
            raise BadRequest(
                f"The job was planned as {job.clips} clips and is {session.num_clips} here: this "
                "worker plans otherwise than the API; run the same version everywhere."
            )
        return session

    def engine(self, plan: Plan) -> "Engine":
        """Return an engine for a plan; another model's weights are let go first.

        Raises  NotFound, Unsupported
        """
        key = (plan.model.name, plan.dtype, plan.offload)
        if self._engine is None or key != self._key:
            self._engine = None
            self.rest()
            quiet_libraries()
            from vidgen.engine import Engine

            self._engine = Engine.load(
                plan.model,
                device=self._device,
                dtype=plan.dtype,
                offload=plan.offload,
                offline=self._offline,
                cache_folder=self._home.embeddings,
            )
            self._key = key
        return self._engine

    def warm(self) -> dict[str, Any]:
        """Return the model whose weights are loaded; LoRAs never stay."""
        return {"model": None if self._key is None else self._key[0], "loras": []}

    def free_bytes(self) -> int:
        """Return the memory that a job could have, with what this process would give up."""
        if self._profile.kind == "cpu":
            import psutil

            return int(psutil.virtual_memory().available + psutil.Process().memory_info().rss)
        import torch

        free, _ = torch.cuda.mem_get_info(self._device)
        return int(free + torch.cuda.memory_reserved(self._device))

    def rest(self) -> None:
        """Give back the memory that a job took."""
        import torch

        from vidgen.components import release

        release(torch.device(self._device))
        if sys.platform == "linux":
            # glibc keeps freed memory for itself unless told otherwise.
            trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
            if trim is not None:
                trim(0)

    def close(self) -> None:
        """Let the weights go."""
        if self._engine is not None:
            self._engine = self._key = None
            self.rest()
