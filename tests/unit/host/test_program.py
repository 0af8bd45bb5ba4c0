"""Programs are run within bounds."""

from __future__ import annotations

import pytest

from exporter.host.program import ProgramError, output, run


def test_both_streams_and_the_status_are_told() -> None:
    done = run(["sh", "-c", "echo out; echo err >&2; exit 3"], 10, 100)

    assert (done.status, done.output, done.errors, done.cut) == (3, b"out\n", b"err\n", False)


def test_streams_may_be_read_as_one() -> None:
    done = run(["sh", "-c", "echo err >&2; echo out"], 10, 100, together=True)

    assert (done.output, done.errors) == (b"err\nout\n", b"")


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


def test_output_of_any_bytes_is_text() -> None:
    assert output(["printf", r"a\377b"], 10) == "a\N{REPLACEMENT CHARACTER}b"


def test_environment_may_be_given() -> None:
    assert output(["/bin/sh", "-c", "echo $NAME"], 10, environment={"NAME": "value"}) == "value\n"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["sh", "-c", "echo first >&2; echo second >&2; exit 3"], "sh -c: first"),
        (["sh", "-c", "echo only; exit 3"], "sh -c: only"),
        (["false"], "false: status 1"),
        (["yes"], "yes: answers more than 1000 bytes"),
        (["sleep", "60"], "sleep 60: no answer within 0.2 s"),
        (["/no-such-program", "-x"], "/no-such-program: No such file or directory"),
    ],
)
def test_program_without_an_answer_is_one_line(command: list[str], says: str) -> None:
    with pytest.raises(ProgramError) as raised:
        output(command, 10 if command[0] != "sleep" else 0.2, 1000)

    assert str(raised.value) == says
