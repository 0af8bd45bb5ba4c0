"""Running another program within bounds of time and memory."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from exporter.core.clock import MonotonicTime, monotonic_time

_MAX_BYTES = 64 << 20
"""sacct's answer about 100,000 jobs is half of it."""


class ProgramError(Exception):
    """One line: what kept a program from giving its answer."""


@dataclass(frozen=True, slots=True)
class CompletedProgram:
    """The output of a program. `cut` if it was more than allowed; the program was ended then."""

    status: int
    output: bytes
    errors: bytes
    cut: bool = False


def output(
    command: Sequence[str], timeout: float, limit: int = _MAX_BYTES, environment: Mapping[str, str] | None = None
) -> str:
    """Return the output of `command` as text. Raises ProgramError, also if it fails or prints too much."""
    name = " ".join(command[:2])
    try:
        done = run(command, timeout, limit, environment)
    except TimeoutError:
        raise ProgramError(f"{name}: no answer within {timeout:g} s") from None
    except OSError as error:
        raise ProgramError(f"{command[0]}: {error.strerror or error}") from None
    if done.cut:
        raise ProgramError(f"{name}: answers more than {limit} bytes")
    if done.status:
        message = (done.errors or done.output).decode("utf-8", "replace").strip().partition("\n")[0]
        raise ProgramError(f"{name}: {message[:200] or f'status {done.status}'}")
    return done.output.decode("utf-8", "replace")


def run(
    command: Sequence[str],
    timeout: float,
    limit: int,
    environment: Mapping[str, str] | None = None,
    *,
    together: bool = False,
) -> CompletedProgram:
    """Run `command` to its end; it may write `limit` bytes, then it is killed with all it has started.

    Its environment is this program's, unless `environment` is given. With `together` its errors are among its output,
    in the order in which it wrote them.

    Raises TimeoutError where it has not ended after `timeout` seconds, and OSError where it cannot be started.
    """
    deadline = monotonic_time() + timeout
    with subprocess.Popen(  # noqa: S603 - the caller names the program
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if together else subprocess.PIPE,
        start_new_session=True,
        env=environment,
    ) as process:
        try:
            written, errors, cut = _read_output(process, deadline, limit)
            if not cut:
                process.wait(max(0.0, deadline - monotonic_time()))
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return CompletedProgram(process.returncode, written, errors, cut)


def _read_output(process: subprocess.Popen[bytes], deadline: MonotonicTime, limit: int) -> tuple[bytes, bytes, bool]:
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
    written, errors = (*found.values(), bytearray())[:2]
    return bytes(written[:limit]), bytes(errors[:limit]), len(written) + len(errors) > limit
