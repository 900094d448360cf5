"""ServerSettings: what the server and its workers can be told, declared once.

`vidgen serve` and `vidgen worker` take each as an option, as VIDGEN_<NAME> or from a settings
file; help texts and the operator's table are made from here.
"""

import re
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from vidgen.request_values import Untrusted


def setting(default: Any, text: str, **bounds: Any) -> Any:
    """Declare one setting with its help text."""
    return Field(default, description=text, **bounds)


def _check_url(text: str, *, path: bool) -> None:
    """Raise ValueError unless a text is an http URL: of a place, or with path=False an origin."""
    kind = "http(s)://host[:port]" + "[/path]" * path
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or parts.username or parts.query or parts.fragment or (parts.path and not path):
        raise ValueError(f"must be {kind}")


class ServerSettings(Untrusted):
    """Settings of one installation; the API and all workers should be given the same."""

    # Where things are
    database: str = setting(
        "", "URL of the database: sqlite:///FILE or postgresql://..; empty: a file in the home."
    )
    store: str = setting(
        "", "Where artifacts are: a folder, s3://, gs:// or az://; empty: a folder in the home."
    )
    work: str = setting("", "Folder for unfinished jobs; empty: in the home.")

    # The API
    host: str = setting("127.0.0.1", "Address to listen on.")
    port: int = setting(8000, "Port to listen on; 0 takes a free one.", ge=0, le=65535)
    public_url: str = setting(
        "",
        "URL under which clients reach the server, e.g. https://video.example.com behind a proxy: "
        "the beginning of the links in its answers. A server that listens on this machine only "
        "answers to no other outer name. Empty: links are relative.",
    )
    max_body_mib: int = setting(256, "Largest request body.", ge=1, le=65536)
    cors_origins: tuple[str, ...] = setting(
        (), "Origins whose pages may call the API; none: same origin only."
    )
    open_without_keys: bool = setting(
        True, "On a loopback address, answer without an API key while none exists."
    )

    # Queue
    max_queued: int = setting(100, "Waiting jobs above which new ones are refused.", ge=1)
    max_backlog_seconds: float = setting(
        3600, "Predicted work in the queue above which new jobs are refused.", gt=0
    )
    tenant_max_queued: int = setting(
        100, "Waiting jobs of one tenant, unless the tenant has its own bound.", ge=1
    )
    ageing_seconds: float = setting(600, "Wait after which a job counts one priority higher.", gt=0)
    affinity_seconds: float = setting(
        30, "How much later a job may be served so that a warm worker gets it.", ge=0
    )
    price_per_gpu_hour: float = setting(0.0, "Price in your currency, for usage and budgets.", ge=0)

    # Workers
    pool: str = setting(
        "default",
        "Pool that a worker serves, and that a job goes to when it names none.",
        pattern=r"^[a-z0-9-]{1,64}$",
    )
    heartbeat_seconds: float = setting(5, "How often a worker says that it lives.", gt=0, le=60)
    lease_seconds: float = setting(
        30, "Silence after which a worker's job is given to another.", gt=0
    )
    poll_seconds: float = setting(0.25, "How often an idle worker looks for a job.", gt=0, le=10)
    stop_poll_seconds: float = setting(
        0.25, "How often a busy worker looks whether its job shall stop.", gt=0, le=2
    )
    cancel_grace_seconds: float = setting(10, "How long DELETE waits for a worker to stop.", ge=0)
    drain_seconds: float = setting(
        60, "Time left to finish on a polite shutdown before the job is handed back.", ge=0
    )
    watchdog_factor: float = setting(
        5, "Times the predicted step after which a worker without progress restarts.", gt=1
    )
    watchdog_seconds: float = setting(300, "And at least this long.", gt=0)
    max_losses: int = setting(3, "Workers that may die over one job before it fails.", ge=1)
    max_collapses: int = setting(
        2, "Times that an unusable clip is made anew before the job fails.", ge=0
    )
    previews: bool = setting(True, "Store previews of running jobs.")

    # Keeping
    retention_seconds: float = setting(
        7 * 86400, "How long results are kept unless a job says otherwise.", gt=0
    )
    trash_seconds: float = setting(7 * 86400, "How long trashed results can be restored.", gt=0)
    upload_seconds: float = setting(86400, "How long an upload that no job uses is kept.", gt=0)
    chain_work_seconds: float = setting(
        86400,
        "How long a finished chain's clips stay in the work folder, so that forks and new takes "
        "share them instead of making them again.",
        ge=0,
    )
    sweep_seconds: float = setting(60, "How often expired things are deleted.", gt=0)
    disk_reserve_mib: int = setting(1024, "Free disk below which new jobs are refused.", ge=0)

    # Inputs
    url_fetch: bool = setting(False, "Let clients name inputs by https URL.")
    url_max_mib: int = setting(20, "Largest fetched input.", ge=1)
    url_seconds: float = setting(10, "Longest fetch.", gt=0)
    upload_max_mib: int = setting(256, "Largest upload.", ge=1)
    lora_folder: str = setting("", "Folder of the LoRAs that clients may name; empty: none.")
    image_max_megapixels: float = setting(33, "Largest picture, by its header.", gt=0)
    webhook_private: bool = setting(
        False, "Let webhooks go to private addresses and over plain http."
    )

    # Watching
    log_format: str = setting("text", "text or json.", pattern=r"^(text|json)$")
    tracing: str = setting(
        "off",
        "off, or otlp: spans go to an OpenTelemetry collector, as the standard OTEL_ variables "
        "say; needs the extra otel.",
        pattern=r"^(off|otlp)$",
    )

    @field_validator("public_url")
    @classmethod
    def _reachable(cls, value: str) -> str:
        if value:
            _check_url(value, path=True)
        return value

    @field_validator("cors_origins")
    @classmethod
    def _origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            if origin != "*":  # refused with its reason where the server starts
                _check_url(origin, path=False)
        return value

    @model_validator(mode="after")
    def _alive(self) -> Self:
        if self.lease_seconds < 2 * self.heartbeat_seconds:
            raise ValueError(
                f"lease_seconds={self.lease_seconds:g} must be at least twice heartbeat_seconds="
                f"{self.heartbeat_seconds:g}, or the jobs of healthy workers are given away"
            )
        return self

    def with_home(self, home: Path) -> "ServerSettings":
        """Return a copy in which every place is named."""
        root = home / "server"
        return self.model_copy(
            update={
                "database": self.database or f"sqlite:///{root / 'vidgen.db'}",
                "store": self.store or str(root / "store"),
                "work": self.work or str(root / "work"),
            }
        )


def masked(text: str) -> str:
    """Return a text with the passwords of all URLs in it hidden."""
    return re.sub(r"(://[^/@:\s]*:)[^/\s]*@", r"\1***@", text)
