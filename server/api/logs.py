"""Logs of a server process: one line an entry, as text or JSON; never a prompt, body or key."""

import json
import logging
import sys
import time

from server.settings import ServerSettings

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        data = {
            "ts": f"{at}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            data["exception"] = self.formatException(record.exc_info)
        return json.dumps(data, ensure_ascii=False)


def set_up_logs(settings: ServerSettings) -> None:
    """Send the process's log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter(_TEXT)
    handler.setFormatter(JsonLines() if settings.log_format == "json" else text)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # What these would say of each request is said once, by the guard.
    for name in ("uvicorn.access", "httpx", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
