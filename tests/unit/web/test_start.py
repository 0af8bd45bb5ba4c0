"""What a process loads for its HTTP server: OpenSSL only where TLS is served."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
_PROGRAM = """
import sys
from exporter.cli import serve
from exporter.exposition.pages import Page
from exporter.threads.runner import Threads
from exporter.web.app import App, Pages
from exporter.web.start import server

app = App(Pages(lambda _: Page("", b""), str, str), "/metrics")
certificates = None if sys.argv[1] == "plain" else object()
made = server(app, ("127.0.0.1", 0), 1, certificates, Threads())
made.start()
made.stop()
import asyncio.base_events
print("ssl" in sys.modules, "_hashlib" in sys.modules, "http.client" in sys.modules, asyncio.base_events.ssl is None)
import ssl
print(ssl.OPENSSL_VERSION != "")
"""


@pytest.mark.parametrize(("mode", "loaded"), [("plain", "False False False True"), ("tls", "True False False False")])
def test_openssl_is_loaded_where_tls_is_served_and_can_be_had_later(mode: str, loaded: str) -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM, mode], cwd=ROOT, check=True, capture_output=True, text=True)

    assert done.stdout.splitlines() == [loaded, "True"]
