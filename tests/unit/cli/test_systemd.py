"""What systemd is told: nothing without it, and no heartbeat from an exporter that no longer samples."""

from __future__ import annotations

import socket
from pathlib import Path

from exporter.cli.systemd import Heartbeat, Notifier


def test_nothing_is_sent_where_systemd_does_not_listen(tmp_path: Path) -> None:
    Notifier.of({}).send("READY=1")
    Notifier.of({"NOTIFY_SOCKET": str(tmp_path / "gone")}).send("READY=1")


def test_an_abstract_socket_is_reached() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(f"\0gpu-exporter-test-{id(systemd)}")
        systemd.settimeout(10)
        Notifier.of({"NOTIFY_SOCKET": f"@gpu-exporter-test-{id(systemd)}"}).send("READY=1", "STATUS=x")
        assert systemd.recv(100) == b"READY=1\nSTATUS=x"


def test_the_heart_beats_while_passes_go_on() -> None:
    heart = Heartbeat(interval=1.0, now=0.0)
    assert heart.alive(passes=0, now=9.0)
    assert heart.alive(passes=1, now=15.0)
    assert heart.alive(passes=1, now=25.0)
    assert not heart.alive(passes=1, now=26.0)
    assert heart.alive(passes=2, now=27.0)


def test_a_long_interval_is_waited_for() -> None:
    assert Heartbeat(interval=60.0, now=0.0).alive(passes=0, now=290.0)
