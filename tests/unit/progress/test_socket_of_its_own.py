"""The socket among others: a second exporter beside the first (a rollout), or somebody who clears the folder."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.progress import socket_source
from exporter.progress.reporters import Reporters
from exporter.progress.socket_source import SocketSource, _bind_socket
from tests.stack import poll


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_source, "_WAIT_SECONDS", 0.01)


def running(path: Path) -> tuple[SocketSource, Callable[[], None]]:
    source = SocketSource(path, Reporters())
    thread = threading.Thread(target=source.run, daemon=True)
    thread.start()
    poll("the socket", lambda: (path.is_socket() and not source.error) or None, 20)

    def end() -> None:
        source.stop()
        thread.join(20)
        assert not thread.is_alive()

    return source, end


def takes(path: Path, source: SocketSource) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        client.connect(str(path))
        client.send(b'{"steps": 1}')
    return bool(poll("the report", lambda: source._reporters.all() or None, 20))


def test_one_that_was_not_started_says_so(tmp_path: Path) -> None:
    assert SocketSource(tmp_path / "progress.sock", Reporters()).error == "not opened yet"


def test_one_that_ends_leaves_the_socket_of_its_successor(tmp_path: Path) -> None:
    path = tmp_path / "progress.sock"
    first, end_first = running(path)
    second = SocketSource(path, Reporters())
    thread = threading.Thread(target=second.run, daemon=True)
    thread.start()
    poll("that the first sees it", lambda: "another" in first.error or None, 20)
    end_first()

    assert takes(path, second)
    second.stop()
    thread.join(20)
    assert not path.exists()


def test_socket_that_was_removed_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "run" / "progress.sock"
    source, end = running(path)
    path.unlink()
    path.parent.rmdir()
    poll("the socket", lambda: path.is_socket() or None, 20)

    assert takes(path, source)
    end()
    assert not path.exists()


def test_successor_that_went_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "progress.sock"
    source, end = running(path)
    _bind_socket(path).close()
    poll("that it is seen", lambda: source.error == f"{path}: another program's now" or None, 20)
    path.unlink()
    poll("the socket", lambda: (path.is_socket() and not source.error) or None, 20)

    assert takes(path, source)
    end()
