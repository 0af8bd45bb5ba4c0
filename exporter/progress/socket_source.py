"""Reports by a unix datagram socket. The kernel proves the sender: SCM_CREDENTIALS has its pid and user id.

A sender can only name another process with CAP_SYS_ADMIN over its own PID namespace, and then only one inside of it. A
pid of 0 is a process outside of this PID namespace: run the exporter in the host's PID namespace to see pods.
"""

from __future__ import annotations

import logging
import select
import socket
import struct
import threading
from dataclasses import replace
from pathlib import Path

from exporter.core.clock import MonotonicClock, monotonic_time
from exporter.progress.processes import Accounts, process
from exporter.progress.protocol import LARGEST, parse
from exporter.progress.reporters import Reporters

log = logging.getLogger(__name__)

_CREDENTIALS = struct.Struct("=iII")
_ROOM = socket.CMSG_SPACE(_CREDENTIALS.size)
_BATCH = 256
"""Reports of one batch."""
_PAUSE_SECONDS = 0.05
"""Seconds between two batches, which bounds the cost of a flood."""
_WAIT_SECONDS = 1.0

_Identity = tuple[int, int] | None
"""Device and inode."""


class SocketSource:
    """Reader of the socket, until stopped."""

    def __init__(
        self,
        path: Path,
        reporters: Reporters,
        procfs: Path = Path("/proc"),
        clock: MonotonicClock = monotonic_time,
        *,
        cgroupfs: Path = Path("/sys/fs/cgroup"),
    ) -> None:
        self._path = path
        self._reporters = reporters
        self._procfs = procfs
        self._accounts = Accounts(procfs, cgroupfs)
        self._clock = clock
        self._stopped = threading.Event()
        self.error = "not opened yet"
        """Reason why no report can arrive; empty while the socket is open."""

    def run(self) -> None:
        """Serve until stopped. Raises OSError if the socket cannot be made: the thread is run again later."""
        while not self._stopped.is_set():
            try:
                server = _bind_socket(self._path)
            except OSError as error:
                self.error = f"{self._path}: {error.strerror or error}"
                raise
            with server:
                self._serve(server, _path_identity(self._path))
            self._stopped.wait(_PAUSE_SECONDS)

    def _serve(self, server: socket.socket, own: _Identity) -> None:
        """Serve until stopped, or until the socket is gone. A path that another exporter took over is left to it."""
        found = own
        while not self._stopped.is_set() and found:
            self.error = "" if found == own else f"{self._path}: another program's now"
            if self.read(server) >= _BATCH:
                self._stopped.wait(_PAUSE_SECONDS)
            found = _path_identity(self._path)
        if found == own:
            self._path.unlink(missing_ok=True)

    def stop(self) -> None:
        self._stopped.set()

    def read(self, server: socket.socket) -> int:
        """Read at most a batch, after a wait of at most a second. Returns the number of reports."""
        count = 0
        waiting = select.poll()
        waiting.register(server, select.POLLIN)
        waiting.poll(_WAIT_SECONDS * 1000)
        while count < _BATCH and not self._stopped.is_set():
            try:
                text, ancillary, flags, _ = server.recvmsg(LARGEST + 1, _ROOM)
            except BlockingIOError:
                break
            count += 1
            self._take(text, ancillary, truncated=bool(flags & socket.MSG_TRUNC))
        return count

    def _take(self, text: bytes, ancillary: list[tuple[int, int, bytes]], *, truncated: bool) -> None:
        sender = _sender_ids(ancillary)
        if sender is None:
            self._reporters.refuse("unknown_sender")
            return
        pid, user = sender
        now = self._clock()
        before = self._reporters.known(pid, user)
        account = self._accounts.of(pid, user, now) or (before.account if before else "") or f"ended {user}"
        if not self._reporters.admit(account, now):
            return
        report = None if truncated else parse(text)
        if report is None:
            self._reporters.refuse("malformed")
            return
        # Read for each report, because the pid may be reused. An ended process is known by its pid.
        found = process(pid, self._procfs)
        known = replace(found, account=account) if found and found.user == user else before
        if known is None:
            self._reporters.refuse("unknown_sender")
            return
        self._reporters.add(known, report, now)


def _bind_socket(path: Path) -> socket.socket:
    """Return the socket at `path`, to which all users may send. An old socket is replaced, any other file is not."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if path.is_socket():
        path.unlink()
    server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        server.settimeout(0.0)
        server.bind(str(path))
        path.chmod(0o666)
    except OSError:
        server.close()
        raise
    return server


def _path_identity(path: Path) -> _Identity:
    """Return device and inode of the path; None if nothing is there."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _sender_ids(ancillary: list[tuple[int, int, bytes]]) -> tuple[int, int] | None:
    """Return pid and user id; None if the kernel reports none, or none in this PID namespace."""
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and len(content) >= _CREDENTIALS.size:
            pid, user, _ = _CREDENTIALS.unpack(content[: _CREDENTIALS.size])
            return (pid, user) if pid > 0 else None
    return None
