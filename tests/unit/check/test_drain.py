"""What the check does to a Slurm node, by the node's state and the verdict."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.check import drain
from exporter.check.drain import MARK, Act, NodeState, SlurmError, decide, follow, parse, reason_of

SHOWN = """\
NodeName=n1 Arch=x86_64 CoresPerSocket=1
   State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=gpu
   CapWatts=n/a
{reason}"""
OURS, THEIRS = f"{MARK}GPU 1: gone", "broken fan, ticket 42"


def shown(state: str, reason: str = "") -> str:
    return SHOWN.format(state=state, reason=f"   Reason={reason} [root@2026-11-21T12:00:00]\n" if reason else "")


def test_state_and_reason_are_read() -> None:
    assert parse(shown("IDLE+DRAIN", THEIRS)) == NodeState("IDLE+DRAIN", THEIRS)
    assert parse(shown("MIXED")) == NodeState("MIXED", "")


def test_answer_without_a_state_is_an_error() -> None:
    with pytest.raises(SlurmError, match="no State"):
        parse("Node n9 not found")


@given(st.text())
def test_parser_takes_any_text(text: str) -> None:
    with contextlib.suppress(SlurmError):
        assert parse(text).state


@pytest.mark.parametrize(
    ("state", "reason", "failed", "act"),
    [
        ("IDLE",               "",     True,  Act.DRAIN),
        ("ALLOCATED",          "",     True,  Act.DRAIN),
        ("DOWN*",              "",     True,  Act.DRAIN),
        ("IDLE+DRAIN",         OURS,   True,  Act.NOTHING),
        ("IDLE+DRAIN",         f"{MARK}GPU 2: other", True, Act.DRAIN),
        ("IDLE+DRAIN",         THEIRS, True,  Act.NOTHING),
        ("IDLE",               "",     False, Act.NOTHING),
        ("IDLE+DRAIN",         OURS,   False, Act.RESUME),
        ("ALLOCATED+DRAIN",    OURS,   False, Act.RESUME),
        ("IDLE+DRAIN",         THEIRS, False, Act.NOTHING),
        ("IDLE",               OURS,   False, Act.NOTHING),
    ],
)  # fmt: skip
def test_only_our_own_drains_are_touched(state: str, reason: str, failed: bool, act: Act) -> None:  # noqa: FBT001
    assert decide(NodeState(state, reason), failed=failed, reason=OURS) is act


def test_commands_that_drain_and_resume() -> None:
    asked: list[Sequence[str]] = []

    def run(arguments: Sequence[str]) -> str:
        asked.append(arguments)
        return shown("IDLE") if len(asked) == 1 else shown("IDLE+DRAIN", OURS)

    assert follow("n1", failed=True, summary="GPU 1: gone", run=run) is Act.DRAIN
    assert asked == [["show", "node", "n1"], ["update", "NodeName=n1", "State=DRAIN", f"Reason={OURS}"]]
    asked[:] = [[]]
    assert follow("n1", failed=False, summary="2 GPUs answer", run=run) is Act.RESUME
    assert asked[-1] == ["update", "NodeName=n1", "State=RESUME"]


def test_reason_is_one_short_line() -> None:
    reason = reason_of("GPU 1: a\n" + "b " * 400)

    assert reason.startswith(MARK)
    assert "\n" not in reason
    assert len(reason) == 200


def test_scontrol_that_is_not_there_or_fails_is_one_line() -> None:
    with pytest.raises(SlurmError, match="No such file"):
        drain.scontrol("/nonexistent/scontrol")(["show"])
    with pytest.raises(SlurmError, match="status 1"):
        drain.scontrol("false")(["show"])
