"""`make demo`: its pages hold what they promise, somebody is told, and nothing stays behind.

tests/walk/bare.py walks it on a bare machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.walk import oncall
from tests.walk.running import CHROMIUM, browse, links, places, settled, start, visit

ROOT = Path(__file__).resolve().parents[2]
FIRST = 300.0
"""Seconds the first start may take, with its downloads."""
OF_A_GPU = ("/runbooks/", "/d/gpu-device", "/d/gpu-health", "check --check.url")
WAY = {"page": OF_A_GPU, "ticket": OF_A_GPU, "mail": ("/runbooks/", "/d/gpu-workload-")}
"""By the kind of a message: one about a workload leads to that workload, one about a GPU to the check there too."""


def children() -> list[str]:
    """What the demo has started and still runs."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"{ROOT}/.cache/demo/run-" in command or (";node=train-1" in command and str(ROOT) in command):
            found.append(command)
    return found


def follow(reached: Sequence[str]) -> None:
    """Visit these pages, and the documentation that dashboards among them lead to."""
    pages = {url: visit(url) for url in reached}
    onward = {link for url, page in pages.items() if "/d/" in url for link in links(url, page) if "/d/" not in link}
    pages |= {url: visit(url) for url in onward - set(reached)}
    into = {(to, place) for url, page in tuple(pages.items()) for to, place in places(url, page).items() if to in pages}
    assert into
    assert [(to, place) for to, place in into if f'id="{place}"' not in pages[to]] == []
    assert any("/docs/runbooks/" in url for url in onward)


def lacking(walked: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """What was not on the way from which kind of message."""
    return [(kind, part) for kind, parts in WAY.items() for part in parts if part not in "\n".join(walked[kind])]


@pytest.mark.deep
@pytest.mark.xdist_group("demo")
def test_the_demo_shows_what_it_promises_and_leaves_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    environment = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "PATH"))}
    before = set((ROOT / ".cache/demo").glob("run-*"))
    command = [str(ROOT / ".ci/make/demo.sh"), "--port", "0"]
    demo = start(command, ROOT, environment | {"HOME": str(home), "TMPDIR": str(home)})
    try:
        demo.until("Ctrl-C ends everything", FIRST)
        demo.until(r"ticket to on-call", 120)
        demo.until(r"mail to barbara@example.org.*leaves 1 GPU idle", 240)
        assert len([settled(url, visit) for url in demo.urls]) >= 8
        entrance = browse(demo.urls[0]) if CHROMIUM else visit(demo.urls[0])
        reached = links(demo.urls[0], entrance)
        follow(reached)
        walked = oncall.walk(demo.urls[0])
    finally:
        code = demo.end()
    assert len(reached) >= 30
    assert "leaves 1 GPU idle" in " ".join(entrance.split())
    assert lacking(walked) == [], walked
    assert code == 0
    assert children() == []
    assert set((ROOT / ".cache/demo").glob("run-*")) == before
    # pip asks rustc for its version, and where that is rustup it makes itself a folder.
    assert [path.name for path in home.iterdir() if path.name != ".rustup"] == []
