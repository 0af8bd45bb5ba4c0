"""The HTTP server, made so that OpenSSL, which takes 6 MiB of memory, is loaded only where TLS is served."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, cast

from exporter.threads.runner import Threads
from exporter.web.app import App

if TYPE_CHECKING:
    from exporter.web.server import Server
    from exporter.web.tls import Certificates


def server(
    app: App, address: tuple[str, int], workers: int, certificates: Certificates | None, threads: Threads
) -> Server:
    """To be called before there are threads. Raises ConfigError as `Server` does."""
    with contextlib.nullcontext() if certificates else _without("ssl"):
        importlib.import_module("asyncio")
    from exporter.web.server import Server  # noqa: PLC0415 - loads asyncio

    return Server(app, address, workers, certificates, threads)


@contextlib.contextmanager
def _without(name: str) -> Generator[None]:
    """As on a Python that was built without this module, unless it is loaded already.

    asyncio works on those too: it asks for the module, and goes without TLS.
    """
    if name in sys.modules:
        yield
        return
    modules = cast("dict[str, object]", sys.modules)
    modules[name] = None
    try:
        yield
    finally:
        del modules[name]
