"""Sources of progress end when they are told to, whatever they wait for."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from exporter.progress import folder_source, socket_source
from exporter.progress.folder_source import FolderSource
from exporter.progress.reporters import Reporters
from exporter.progress.socket_source import SocketSource


def ends(source: FolderSource | SocketSource, waiting: threading.Event) -> bool:
    thread = threading.Thread(target=source.run, daemon=True)
    thread.start()
    assert waiting.wait(20)
    source.stop()
    thread.join(20)
    return not thread.is_alive()


def test_folder_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_source, "LIST_SECONDS", 1e6)
    source, looked = FolderSource(tmp_path, Reporters()), threading.Event()
    monkeypatch.setattr(source, "read_changed", looked.set)

    assert ends(source, looked)


def test_pause_after_a_full_batch_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_source, "_PAUSE_SECONDS", 1e6)
    source, read = SocketSource(tmp_path / "progress.sock", Reporters()), threading.Event()

    def full(_server: socket.socket) -> int:
        read.set()
        return socket_source._BATCH

    monkeypatch.setattr(source, "read", full)

    assert ends(source, read)
    assert not (tmp_path / "progress.sock").exists()
