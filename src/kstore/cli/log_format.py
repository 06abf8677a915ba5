"""Formats of the log of ``kstore serve``: text, or one JSON object per line."""

import json
import logging
import sys
from datetime import UTC, datetime

FORMATS = ("text", "json")


class JsonFormatter(logging.Formatter):
    """``{"time": ..., "level": ..., "logger": ..., "message": ...}``; ``exception`` has the
    traceback, if the record has one. Times are UTC, ISO 8601 with milliseconds."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC)
        found = {
            "time": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            found["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            found["stack"] = self.formatStack(record.stack_info)
        return json.dumps(found)


def configure_log(kind: str, level: int) -> None:
    """Write the log to standard error. With "json", Python's warnings become records, too."""
    handler = logging.StreamHandler(sys.stderr)
    if kind == "json":
        handler.setFormatter(JsonFormatter())
        logging.captureWarnings(True)
    else:
        handler.setFormatter(logging.Formatter("kstore serve: %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=level)
