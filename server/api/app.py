"""The app: services, guard, routes and document put together."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import anyio.to_thread
from fastapi import Depends, FastAPI
from starlette.middleware.cors import CORSMiddleware

from server.api.auth import OPEN_TENANT, check_open
from server.api.background import Background
from server.api.counters import Counters
from server.api.devices import Devices
from server.api.docs import add_document
from server.api.errors import add_handlers
from server.api.guard import Guard
from server.api.planning import Planner
from server.api.query import check_query
from server.api.refusals import Refusals
from server.api.routes import (
    actions,
    admin,
    content,
    derived,
    events,
    health,
    models,
    storyboards,
    uploads,
    usage,
    videos,
    webhooks,
)
from server.api.services import Services
from server.api.watch import Watch
from server.database import Database, open_database
from server.database.migrate import migrate
from server.inputs.uploads import Uploads
from server.queue import tenants
from server.queue.jobs import Jobs
from server.settings import ServerSettings
from server.store import Store, open_store
from vidgen import __version__

THREADS = 12  # fewer than a database has connections
_ABOUT = (
    "Video generation as jobs: the videos API of OpenAI's clients, and beside it what a queue, a "
    "library and long video need."
)
_EXPOSED = ("openai-poll-after-ms", "retry-after", "retry-after-ms", "idempotent-replayed",
            "etag", "content-range", "accept-ranges", "content-disposition")  # fmt: skip


def create_app(
    settings: ServerSettings,
    home: Path,
    *,
    database: Database | None = None,
    store: Store | None = None,
) -> FastAPI:
    """Make the app of one API process; nothing runs before its lifespan begins.

    home             Vidgen's home, for the places that the settings leave open
    database, store  opened by the caller; None: as the settings say. The database is brought up to
                     date.
    Raises           BadRequest for a server that anyone could use, or settings that name no place
    """
    settings = settings.with_home(home)
    Path(settings.work).mkdir(parents=True, exist_ok=True)
    database = database or open_database(settings.database)
    migrate(database)
    check_open(settings, database)
    tenants.ensure(database, OPEN_TENANT)
    services = _services(settings, home, database, store or open_store(settings))
    app = FastAPI(
        title="Vidgen",
        version=__version__,
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        redirect_slashes=False,
        # Its own spans and logs hold query strings and errors, and so words of prompts.
        telemetry={"exclude": lambda _scope: True, "auto_configure": False},
    )
    app.state.services = services
    app.include_router(health.router)
    for router in (*(part.router for part in _PARTS), admin.admin):
        app.include_router(router, dependencies=[Depends(check_query)])
    add_handlers(app)
    add_document(app, (*actions.BODIES, *webhooks.BODIES, *admin.BODIES, *storyboards.BODIES))
    _add_cors(app, settings.cors_origins)
    app.add_middleware(Guard, settings=settings, counters=services.counters)
    return app


_PARTS = (derived, videos, actions, content, events, storyboards, models, uploads, usage, webhooks,
          admin)  # fmt: skip


def _services(settings: ServerSettings, home: Path, database: Database, store: Store) -> Services:
    return Services(
        settings=settings,
        home=home,
        database=database,
        store=store,
        jobs=Jobs(database, settings),
        uploads=Uploads(database, store, settings),
        planner=Planner(database, Devices(database, home)),
        watch=Watch(database),
        counters=Counters(),
        refusals=Refusals(),
    )


def _add_cors(app: FastAPI, origins: Sequence[str]) -> None:
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "HEAD", "POST", "PATCH", "DELETE"],
            allow_headers=["*"],
            expose_headers=list(_EXPOSED),
        )


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    services: Services = app.state.services
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
    background = Background(services)
    services.watch.start()
    background.start()
    services.uploads.start()
    try:
        yield
    finally:
        services.draining = True
        await anyio.to_thread.run_sync(services.watch.stop)
        await anyio.to_thread.run_sync(background.stop)
        services.uploads.close()
        services.database.close()
