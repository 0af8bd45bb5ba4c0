"""What the check does to a Slurm node, by the node's state and the verdict."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.tools.check import drain
from exporter.tools.check.drain import Act, DrainMarker, NodeState, SlurmError, decide, follow, parse

SHOWN = """\
NodeName=n1 Arch=x86_64 CoresPerSocket=1
   State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=gpu
   CapWatts=n/a
{reason}"""
DRIVER, LOST = DrainMarker("no driver"), DrainMarker("GPU3 lost (XID 79)", hands=True)
OURS, THEIRS = DRIVER.reason, "broken fan, ticket 42"
GOOD = 3


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
    ("state", "reason", "fault", "act"),
    [
        ("IDLE",            "",               DRIVER, Act.DRAIN),
        ("ALLOCATED",       "",               LOST,   Act.DRAIN),
        ("DOWN*",           "",               DRIVER, Act.DRAIN),
        ("IDLE+DRAIN",      OURS,             DRIVER, Act.NOTHING),
        ("IDLE+DRAIN",      OURS,             LOST,   Act.DRAIN),
        ("IDLE+DRAIN",      LOST.reason,      DRIVER, Act.NOTHING),
        ("IDLE+DRAIN",      THEIRS,           LOST,   Act.NOTHING),
        ("DOWN",            THEIRS,           LOST,   Act.NOTHING),
        ("DOWN*",           "Not responding", DRIVER, Act.NOTHING),
        ("DOWN$",           THEIRS,           LOST,   Act.NOTHING),
        ("IDLE+FAIL",       THEIRS,           LOST,   Act.NOTHING),
        ("ALLOCATED+FAIL*", THEIRS,           LOST,   Act.NOTHING),
        ("IDLE",            THEIRS,           LOST,   Act.DRAIN),
        ("DOWN+DRAIN",      DrainMarker("x", good=2).reason, None, Act.RESUME),
        ("IDLE",            "",               None,   Act.NOTHING),
        ("IDLE+DRAIN",      OURS,             None,   Act.COUNT),
        ("ALLOCATED+DRAIN", DrainMarker("x", good=2).reason, None, Act.RESUME),
        ("IDLE+DRAIN",      DrainMarker("x", good=2).reason, DRIVER, Act.DRAIN),
        ("IDLE+DRAIN",      LOST.reason,      None,   Act.NOTHING),
        ("IDLE+DRAIN",      "gpu-exporter: the driver is gone", None, Act.COUNT),
        ("IDLE+DRAIN",      THEIRS,           None,   Act.NOTHING),
        ("IDLE",            OURS,             None,   Act.NOTHING),
    ],
)  # fmt: skip
def test_only_our_own_drains_are_touched_and_what_needs_hands_is_not_resumed(
    state: str, reason: str, fault: DrainMarker | None, act: Act
) -> None:
    assert decide(NodeState(state, reason), fault, GOOD)[0] is act


class Slurm:
    """One node as slurmctld keeps it."""

    def __init__(self) -> None:
        self.state, self.reason = "IDLE", ""
        self.changes: list[str] = []

    def run(self, arguments: Sequence[str]) -> str:
        assert list(arguments) == ["show", "node", "n1"] or arguments[:2] == ["update", "NodeName=n1"]
        given = dict(part.partition("=")[::2] for part in arguments[1:])
        if arguments[0] == "update":
            self.reason = given.get("Reason", "" if given.get("State") == "RESUME" else self.reason)
            self.state = {"DRAIN": "IDLE+DRAIN", "RESUME": "IDLE"}.get(given.get("State", ""), self.state)
            self.changes += [given["State"]] if "State" in given else []
        return shown(self.state, self.reason)


def test_gpu_that_is_lost_and_back_every_21_seconds_is_one_drain_and_no_resume() -> None:
    slurm = Slurm()

    for turn in range(10):
        follow("n1", LOST if turn % 2 == 0 else None, slurm.run, GOOD)

    assert slurm.changes == ["DRAIN"]
    assert slurm.reason[:20] == "GPU3 lost (XID 79) ["


def test_driver_that_comes_and_goes_is_resumed_after_three_good_checks_in_a_row() -> None:
    slurm = Slurm()
    checks = [DRIVER, None, None, DRIVER, None, None, None, None]

    reasons = []
    for fault in checks:
        follow("n1", fault, slurm.run, GOOD)
        reasons.append(slurm.reason)

    assert slurm.changes == ["DRAIN", "DRAIN", "RESUME"]
    assert reasons == [
        "no driver [gpu-exporter]",
        "no driver [gpu-exporter: 1 good]",
        "no driver [gpu-exporter: 2 good]",
        "no driver [gpu-exporter]",
        "no driver [gpu-exporter: 1 good]",
        "no driver [gpu-exporter: 2 good]",
        "",
        "",
    ]


def test_reason_is_one_short_line_that_is_read_back() -> None:
    mark = DrainMarker("GPU 1: a\n" + "b " * 400, hands=True)

    assert "\n" not in mark.reason
    assert len(mark.reason) <= 200
    read = NodeState("IDLE+DRAIN", mark.reason).marker
    assert read
    assert read.hands


def test_scontrol_that_is_not_there_or_fails_is_one_line() -> None:
    with pytest.raises(SlurmError, match="No such file"):
        drain.scontrol("/nonexistent/scontrol")(["show"])
    with pytest.raises(SlurmError, match="status 1"):
        drain.scontrol("false")(["show"])


def test_reason_is_printable_and_its_mark_is_read_again() -> None:
    marker = DrainMarker("GPU3 lost\n[gpu-exporter] \x1b[2J\x9b\u202e")

    assert marker.reason == r"GPU3 lost [gpu-exporter] \x1b[2J\x9b\u202e [gpu-exporter]"
    assert NodeState("IDLE+DRAIN", marker.reason).marker is not None
