"""Programs are run within bounds."""

from __future__ import annotations

import pytest

from exporter.host.program import run


def test_both_streams_and_the_status_are_told() -> None:
    done = run(["sh", "-c", "echo out; echo err >&2; exit 3"], 10, 100)

    assert (done.status, done.output, done.errors, done.cut) == (3, b"out\n", b"err\n", False)


def test_program_that_says_too_much_is_ended() -> None:
    done = run(["yes"], 10, 1000)

    assert (done.cut, len(done.output)) == (True, 1000)


@pytest.mark.parametrize("script", ["sleep 60", "exec >&- 2>&-; sleep 60", "sleep 60 & sleep 60"])
def test_program_that_does_not_end_is_ended(script: str) -> None:
    with pytest.raises(TimeoutError):
        run(["sh", "-c", script], 0.2, 1000)


def test_missing_program_is_an_error() -> None:
    with pytest.raises(OSError, match="no-such-program"):
        run(["/no-such-program"], 1, 1)
