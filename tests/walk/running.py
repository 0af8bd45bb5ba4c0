"""A running demo: what it prints, what its pages hold, and that it leaves nothing behind."""

from __future__ import annotations

import os
import queue
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from urllib.parse import urljoin

import requests

_URL = re.compile(r"http://127\.0\.0\.1:\d+[^\s<\"]*")
_HREF = re.compile(r'href="([^"#]+)(?:#[^"]*)?"')
_PLACE = re.compile(r'href="([^"#]+)#([^"]+)"')
CHROMIUM = next((path for name in ("chromium", "google-chrome") if (path := shutil.which(name))), "")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--virtual-time-budget=3000",
)  # fmt: skip


@dataclass(slots=True)
class Demo:
    """The process, and what it has said so far."""

    process: subprocess.Popen[str]
    began: float
    ready: float = 0.0
    """When the line that was last waited for was said."""
    said: list[str] = field(default_factory=list[str])
    _lines: queue.Queue[str] = field(default_factory=queue.Queue[str])

    _reader: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line)

    def until(self, wanted: str, seconds: float) -> str:
        """The first line that matches; AssertionError with all that was said after `seconds`."""
        deadline = time.monotonic() + seconds
        found = next((line for line in self.said if re.search(wanted, line)), None)
        while found is None:
            try:
                line = self._lines.get(timeout=max(0.01, min(1.0, deadline - time.monotonic())))
            except queue.Empty:
                assert self.process.poll() is None, f"the demo ended: {''.join(self.said)}"
                assert time.monotonic() < deadline, f"no {wanted!r} within {seconds:.0f} s: {''.join(self.said)}"
                continue
            self.said.append(line)
            self.ready = time.monotonic()
            found = line if re.search(wanted, line) else None
        return found

    @property
    def urls(self) -> Sequence[str]:
        return list(dict.fromkeys(url for line in self.said for url in _URL.findall(line)))

    def end(self) -> int:
        """Ctrl-C, as a terminal sends it: to the whole group."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
        code = self.process.wait(60)
        self._reader.join(10)
        if self.process.stdout and not self._reader.is_alive():
            self.process.stdout.close()
        return code


def start(command: Sequence[str], folder: Path | None, environment: Mapping[str, str]) -> Demo:
    process = subprocess.Popen(
        command, cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    return Demo(process, time.monotonic())


def links(url: str, page: str) -> Sequence[str]:
    """Where a page leads, within this demo."""
    whole = (urljoin(url, unescape(link)) for link in _HREF.findall(page))
    return list(dict.fromkeys(link for link in whole if link.startswith("http://127.0.0.1")))


def places(url: str, page: str) -> Mapping[str, str]:
    """Pages of this demo that a page leads into the middle of, and where to."""
    return {urljoin(url, unescape(link)): place for link, place in _PLACE.findall(page)}


def visit(url: str) -> str:
    """The page as it is served; it must be there."""
    answer = requests.get(url, timeout=30)
    assert answer.status_code == 200, f"{url} answers {answer.status_code}: {answer.text[:200]}"
    assert len(answer.text) > 200, f"{url} is empty"
    return answer.text


def browse(url: str, picture: Path | None = None) -> str:
    """The text of the page as a browser has it after its scripts ran."""
    with tempfile.TemporaryDirectory() as profile:
        wish = (f"--screenshot={picture}", "--window-size=1500,2200") if picture else ("--dump-dom",)
        done = subprocess.run(
            [CHROMIUM, *_FLAGS, f"--user-data-dir={profile}", *wish, url],
            capture_output=True, text=True, timeout=90, check=True,
        )  # fmt: skip
    return done.stdout


EXPECTED: Mapping[str, Callable[[str], bool]] = {
    "/": lambda page: "train-2" in page and "Waits for storage" in page,
    "/graph": lambda page: "Prometheus" in page and "graph/index.js" in page,
    "/d/gpu-fleet": lambda page: "GPUs by state" in page and "<svg" in page,
    "/inbox": lambda page: "message" in page,
    "/report": lambda page: "GPU" in page,
}
"""By the path of a printed page, what it must hold; the status pages are known by their title."""


def settled(url: str, read: Callable[[str], str], seconds: float = 120) -> str:
    """The page, once it holds what it should: recording rules are evaluated once a minute."""
    deadline = time.monotonic() + seconds
    page = read(url)
    while not holds(url, page):
        assert time.monotonic() < deadline, f"{url} lacks what it should show: {page[:500]}"
        time.sleep(1)
        page = read(url)
    return page


def holds(url: str, page: str) -> bool:
    path = "/" + url.split("/", 3)[3]
    if path == "/" and re.search(r"<title>[^<]*GPUs of", page):
        return "GPU 0" in page
    return EXPECTED[path](page)
