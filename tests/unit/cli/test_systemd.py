"""What systemd is told: nothing without it, and no heartbeat from an exporter that no longer samples."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from exporter.daemon.serve import Notifier, Watchdog
from exporter.sampling.snapshot import Snapshot


def test_nothing_is_sent_where_systemd_does_not_listen(tmp_path: Path) -> None:
    Notifier.of({}).send("READY=1")
    Notifier.of({"NOTIFY_SOCKET": str(tmp_path / "gone")}).send("READY=1")


def test_an_abstract_socket_is_reached() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(f"\0gpu-exporter-test-{id(systemd)}")
        systemd.settimeout(10)
        Notifier.of({"NOTIFY_SOCKET": f"@gpu-exporter-test-{id(systemd)}"}).send("READY=1", "STATUS=x")
        assert systemd.recv(100) == b"READY=1\nSTATUS=x"


@pytest.mark.parametrize(
    ("interval", "silent", "alive"),
    [(1.0, 0.0, True), (1.0, 10.0, True), (1.0, 10.1, False), (60.0, 300.0, True), (60.0, 300.1, False)],
)
def test_the_heart_beats_while_the_gpus_are_looked_at(
    tmp_path: Path, *, interval: float, silent: float, alive: bool
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(10)
        with Watchdog(Notifier(str(tmp_path / "notify")), interval, Snapshot, lambda: silent) as watchdog:
            watchdog.tick()
        heard = [systemd.recv(100).decode().partition("\n")[0] for _ in range(3 if alive else 2)]

    assert heard == ["READY=1", *(["WATCHDOG=1"] if alive else []), "STOPPING=1"]
