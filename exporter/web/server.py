"""The HTTP server: cheroot with a bounded pool of threads and a time-out on every connection."""

from __future__ import annotations

import logging
import threading
from typing import Any, cast

from cheroot import wsgi

from exporter.config.option import ConfigError
from exporter.web.app import App
from exporter.web.tls import ReloadingAdapter
from exporter.web.tls_settings import Tls

log = logging.getLogger(__name__)

_TIMEOUT = 5
"""Seconds a connection may keep a thread waiting."""


class Server:
    """Serves an App until stopped. Raises ConfigError from the constructor when the address cannot be had."""

    def __init__(self, app: App, address: tuple[str, int], threads: int, tls: Tls | None = None) -> None:
        self._server = _bound(app, address, max(threads, 1), tls)
        self._thread = threading.Thread(target=self._server.serve, name="web", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.bind_addr[1])

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.stop()


def _bound(app: App, address: tuple[str, int], threads: int, tls: Tls | None) -> Any:
    """Make a server that listens already. An empty host is every address, over IPv6 too where there is any."""
    failure: OSError | None = None
    for host in (address[0],) if address[0] else ("::", "0.0.0.0"):
        server = _server(app, (host, address[1]), threads, tls)
        try:
            server.prepare()
        except OSError as error:
            failure = failure or error
        else:
            return server
    reason = str(failure).split("\n", maxsplit=1)[0]
    raise ConfigError(f"--web.listen-address {address[0]}:{address[1]}: {reason}")


def _server(app: App, address: tuple[str, int], threads: int, tls: Tls | None) -> Any:
    server = cast("Any", wsgi).Server(
        address,
        app,
        numthreads=threads,
        max=threads,
        request_queue_size=64,
        timeout=_TIMEOUT,
        shutdown_timeout=1,
        accepted_queue_size=64,
    )
    server.error_log = _log_error
    server.ssl_adapter = ReloadingAdapter(tls) if tls else None
    return server


def _log_error(msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:  # noqa: FBT001, FBT002 - cheroot's signature
    log.log(logging.DEBUG, "%s (%s)", msg.strip(), level, exc_info=traceback)
