"""The process of its own that reads the driver: what it gives back, and how it is ended."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.core.clock import MonotonicTime, monotonic_time
from exporter.tools.check import reading
from exporter.tools.check.reading import ChildError, _all_of, _BrokenOffError, _child_error, _in_child, in_child_process

DEADLINE = 60.0


def ended() -> MonotonicTime:
    return MonotonicTime(monotonic_time() - 1.0)


def soon() -> MonotonicTime:
    return MonotonicTime(monotonic_time() + DEADLINE)


@pytest.mark.parametrize(
    ("written", "end", "text"),
    [
        ("gpu_up 1\n# EOF\n", soon, "gpu_up 1\n"),
        ("# EOF\n", soon, ""),
        ("gpu_up 1\n# EOF\n", ended, None),
    ],
    ids=["all", "nothing", "too late"],
)
def test_text_counts_where_it_came_to_its_end_in_time(
    written: str, end: Callable[[], MonotonicTime], text: str | None
) -> None:
    reader, writer = os.pipe()
    os.write(writer, written.encode())
    os.close(writer)

    assert _all_of(reader, end()) == text
    os.close(reader)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("gpu_up 1\n", ""),
        ("", ""),
        ("# FAILED KeyError: 'a\nb'", "KeyError: 'a b'"),
        ("# FAILED " + "x" * 999, "x" * 200),
    ],
)
def test_text_that_breaks_off_says_what_the_child_said(written: str, says: str) -> None:
    reader, writer = os.pipe()
    os.write(writer, written.encode())
    os.close(writer)

    with pytest.raises(_BrokenOffError) as raised:
        _all_of(reader, soon())
    os.close(reader)
    assert str(raised.value) == says


@pytest.mark.parametrize(
    ("command", "failure", "says", "crashed"),
    [
        ("kill -SEGV $$", "", "the driver's library crashes: SIGSEGV", True),
        ("kill -KILL $$", "", "the process that asks the driver was ended: SIGKILL", False),
        ("exit 0", "", "the check itself failed: it ended without an answer", False),
        ("kill -SEGV $$", "KeyError: x", "the check itself failed: KeyError: x", False),
    ],
)
def test_child_that_ended_shows_how(command: str, failure: str, says: str, crashed: object) -> None:
    with subprocess.Popen(["/bin/sh", "-c", command]) as child:
        found = _child_error(child.pid, failure)

    assert (str(found), found.crashed) == (says, crashed)


def test_child_that_hangs_after_it_broke_off_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_EXIT_WAIT_SECONDS", 0.02)
    with subprocess.Popen(["/bin/sleep", "60"]) as child:
        found = _child_error(child.pid, "")
        child.kill()

    assert (str(found), found.crashed) == ("the check itself failed: it ended without an answer", False)


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The calls that make a process and end it, noted instead; the child's part is played by the test."""
    noted: list[tuple[object, ...]] = []

    def note(name: str) -> Callable[..., int]:
        return lambda *given: (noted.append((name, *given)), 99)[1]

    def pipe() -> tuple[int, int]:
        made.ends = os.pipe()
        return made.ends

    def fork() -> int:
        os.write(made.ends[1], b"gpu_up 1\n# EOF\n")
        return 7

    made = SimpleNamespace(
        noted=noted, pipe=pipe, fork=fork, read=os.read, close=os.close, fdopen=os.fdopen, devnull=os.devnull,
        O_RDWR=os.O_RDWR, WNOHANG=os.WNOHANG,
        **{name: note(name) for name in ("kill", "waitpid", "setsid", "open", "dup2", "_exit")},
    )  # fmt: skip
    monkeypatch.setattr(reading, "os", made)
    return made


def test_child_is_killed_once_it_has_answered_and_is_not_waited_for(
    system: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    @contextmanager
    def message(what: str) -> Iterator[None]:
        said.append(what)
        yield

    monkeypatch.setattr(reading, "progress_message", message)

    assert in_child_process(lambda: "", DEADLINE) == "gpu_up 1\n"
    assert system.noted == [("kill", 7, signal.SIGKILL), ("waitpid", 7, os.WNOHANG)]
    assert said == ["asking the driver"]


def test_child_works_and_writes_into_the_pipe(system: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[object, int]] = []

    def in_child(work: object, writer: int) -> None:
        given.append((work, writer))
        os.write(writer, b"# EOF\n")

    def work() -> str:
        return ""

    system.fork = lambda: 0
    monkeypatch.setattr(reading, "_in_child", in_child)

    assert in_child_process(work, DEADLINE) == ""
    assert given == [(work, system.ends[1])]


def test_machine_without_room_for_a_process_is_the_checks_trouble(
    system: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(system, "fork", refused)
    with pytest.raises(ChildError, match=r"^the check itself failed: Resource temporarily unavailable$") as raised:
        in_child_process(lambda: "", DEADLINE)

    assert not raised.value.crashed
    assert system.noted == []
    for end in system.ends:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(end)


def answers() -> str:
    return "gpu_up 1"


def fails() -> str:
    raise KeyError("bug")


@pytest.mark.parametrize(("work", "status"), [(answers, 0), (fails, 1)])
def test_child_gives_its_streams_away_and_says_by_its_status_how_it_went(
    system: SimpleNamespace, work: Callable[[], str], status: int
) -> None:
    reader, writer = os.pipe()
    try:
        _in_child(work, writer)
    except KeyError:
        assert work is fails  # the status goes first in a real child

    given: list[Any] = [call for call in system.noted if call[0] != "open"]
    assert given == [("setsid",), *(("dup2", 99, stream) for stream in range(3)), ("_exit", status)]
    if work is answers:
        assert _all_of(reader, soon()) == "gpu_up 1\n"
    else:
        with pytest.raises(_BrokenOffError, match=r"^KeyError: 'bug'$"):
            _all_of(reader, soon())
    os.close(reader)
