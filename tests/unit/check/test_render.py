"""A verdict in each format."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from exporter.faults.evaluate import Report, unknown_report
from exporter.faults.rule import Finding, Verdict
from exporter.tools.check.render import FORMATS, nagios, text
from exporter.tools.report.terminal import Colors

PLAIN, COLOURS = Colors(colours=False), Colors(colours=True)
LOST = Finding("gpu_down", Verdict.FAILED, "3", "GPU-x", "does not answer | its driver", "Restart the node.")
HOT = Finding("hw_thermal", Verdict.DEGRADED, "1", "GPU-y", "heat lowers the clocks", "Check fans.")
BAD = Report(Verdict.FAILED, (LOST, HOT), 7, ("NVIDIA H200",) * 8)
GOOD = Report(Verdict.OK, (), 8, ("NVIDIA H200",) * 8)


def test_nagios_is_one_line_with_performance_data() -> None:
    assert nagios(GOOD, PLAIN) == "GPU OK - 8 GPUs reachable (8 x H200) | gpus=8 degraded=0 failed=0\n"
    line = nagios(BAD, PLAIN)
    assert line.startswith("GPU CRITICAL - GPU 3: does not answer / its driver; GPU 1: heat")
    assert line.count("|") == 1
    assert nagios(unknown_report("no such host"), PLAIN).startswith("GPU UNKNOWN - no such host |")


def test_json_has_all_of_it() -> None:
    found = json.loads(FORMATS["json"](BAD, PLAIN))

    assert (found["verdict"], found["gpus"], len(found["findings"])) == ("failed", 7, 2)
    assert found["findings"][0] == {
        "rule": "gpu_down",
        "verdict": "failed",
        "gpu": 3,
        "uuid": "GPU-x",
        "reason": "does not answer | its driver",
        "action": "Restart the node.",
    }


def test_text_says_reason_and_action() -> None:
    lines = text(BAD, PLAIN).splitlines()

    assert lines[0] == "failed: 7 GPUs reachable (8 x H200)"
    assert lines[1:3] == ["  failed    GPU 3: does not answer | its driver", "            Restart the node."]


@pytest.mark.parametrize("name", FORMATS)
def test_colours_only_where_asked_for(name: str) -> None:
    assert "\x1b" not in FORMATS[name](BAD, PLAIN)
    assert ("\x1b" in FORMATS[name](BAD, COLOURS)) == (name == "text")


@pytest.mark.parametrize("name", FORMATS)
def test_a_verdict_on_simulated_gpus_says_so_in_every_format(name: str) -> None:
    simulated = FORMATS[name](replace(GOOD, simulated=True), PLAIN)

    assert "simulated" in simulated
    assert simulated != FORMATS[name](GOOD, PLAIN)
    assert len(simulated.splitlines()) == 1 or name == "json"


FORGED = "x\nGPU OK - 8 GPUs reachable | gpus=8\x1b[2J\x9b\u202e"
"""Ends a line, forges a verdict, clears the screen twice, and turns what follows around."""


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "report",
    [
        Report(Verdict.FAILED, (replace(LOST, reason=FORGED, action=FORGED, short=FORGED, uuid=FORGED),), 7, ()),
        replace(GOOD, models=(FORGED,)),
        unknown_report(FORGED),
    ],
    ids=("finding", "model", "remark"),
)
def test_no_text_of_a_user_commands_the_terminal_or_forges_a_line(name: str, report: Report) -> None:
    shown = FORMATS[name](report, PLAIN)

    assert shown.replace("\n", "").isprintable()
    assert not any(line.startswith("GPU OK") for line in shown.split("\n")[1:])
    if name in {"nagios", "npd"}:
        assert shown.count("\n") == 1
        assert name != "nagios" or shown.count("|") == 1
