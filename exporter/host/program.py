"""Running another program within bounds of time and memory."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from exporter.clock import MonotonicTime, monotonic_time


@dataclass(frozen=True, slots=True)
class Finished:
    """What a program said. `cut` where it said more than it may; it was ended then."""

    status: int
    output: bytes
    errors: bytes
    cut: bool = False


def run(command: Sequence[str], timeout: float, limit: int) -> Finished:
    """Run `command` to its end; it may write `limit` bytes, then it is killed with all it has started.

    Raises TimeoutError where it has not ended after `timeout` seconds, and OSError where it cannot be started.
    """
    deadline = monotonic_time() + timeout
    with subprocess.Popen(  # noqa: S603 - the caller names the program
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            output, errors, cut = _read(process, deadline, limit)
            if not cut:
                process.wait(max(0.0, deadline - monotonic_time()))
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        finally:
            _kill(process)
    return Finished(process.returncode, output, errors, cut)


def _read(process: subprocess.Popen[bytes], deadline: MonotonicTime, limit: int) -> tuple[bytes, bytes, bool]:
    """Both streams to their end, or to `limit` bytes together."""
    found: dict[IO[bytes], bytearray] = {stream: bytearray() for stream in (process.stdout, process.stderr) if stream}
    with selectors.DefaultSelector() as selector:
        for stream in found:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map() and sum(map(len, found.values())) <= limit:
            left = deadline - monotonic_time()
            ready = selector.select(left) if left > 0 else []
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                for stream in [stream for stream in found if stream.fileno() == key.fd]:
                    found[stream] += chunk
                    if not chunk:
                        selector.unregister(stream)
    output, errors = found.values()
    return bytes(output[:limit]), bytes(errors[:limit]), len(output) + len(errors) > limit


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the program and what it started; nothing where all have ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
