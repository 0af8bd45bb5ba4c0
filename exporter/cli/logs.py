"""Log lines as logfmt or JSON, one event a line, on standard error."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator


class _Structured(logging.Formatter):
    def fields(self, record: logging.LogRecord) -> Iterator[tuple[str, str]]:
        yield "time", self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z")
        yield "level", record.levelname.lower()
        yield "logger", record.name
        yield "msg", record.getMessage()
        if record.exc_info:
            yield "exception", self.formatException(record.exc_info)


class Logfmt(_Structured):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={_quoted(value)}" for key, value in self.fields(record))


class Json(_Structured):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(dict(self.fields(record)), ensure_ascii=False)


def _quoted(value: str) -> str:
    plain = value and not any(char in value for char in ' "=\\') and value.isprintable()
    return value if plain else json.dumps(value, ensure_ascii=False)


def configure(level: str, style: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Json() if style == "json" else Logfmt())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("urllib3").setLevel(logging.WARNING)
