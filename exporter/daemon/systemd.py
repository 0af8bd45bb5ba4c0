"""Telling systemd that the exporter serves, that it still samples, and what it sees (sd_notify(3))."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import final

from exporter.sampling.snapshot import Snapshot

log = logging.getLogger(__name__)

_INTERVALS = 5
"""Sampling intervals without a sign of life after which the watchdog is left to act."""


@dataclass(frozen=True, slots=True)
class Notifier:
    """Sends lines to systemd; without an address (not started by systemd) it sends nothing."""

    address: str

    @staticmethod
    def of(environment: Mapping[str, str]) -> Notifier:
        return Notifier(environment.get("NOTIFY_SOCKET", ""))

    def send(self, *lines: str) -> None:
        if not self.address:
            return
        name = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.sendto("\n".join(lines).encode(), name)
        except OSError as error:
            log.debug("systemd is not told %s: %s", lines, error)


def status_line(snapshot: Snapshot) -> str:
    """Return the line that `systemctl status` shows."""
    gpus = snapshot.status.gpus
    answering = sum(gpu.up is True for gpu in gpus)
    return f"STATUS={snapshot.not_ready or f'{answering} of {len(gpus)} GPUs answer'}"


@final
class Watchdog:
    """Reports that the exporter serves, that it samples, and that it ends.

    `silent` is for how many seconds no cycle has ended: after some intervals of them nothing more is reported, and
    systemd restarts an exporter that serves and no longer samples.
    """

    def __init__(
        self, notifier: Notifier, interval: float, snapshot: Callable[[], Snapshot], silent: Callable[[], float]
    ) -> None:
        self._notifier, self._snapshot, self._silent = notifier, snapshot, silent
        self._timeout_seconds = max(_INTERVALS * interval, 10.0)

    def __enter__(self) -> Watchdog:
        self._notifier.send("READY=1", status_line(self._snapshot()))
        return self

    def tick(self) -> None:
        if self._silent() <= self._timeout_seconds:
            self._notifier.send("WATCHDOG=1", status_line(self._snapshot()))

    def __exit__(self, *_: object) -> None:
        self._notifier.send("STOPPING=1")
