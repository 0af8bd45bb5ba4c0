from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from exporter.tools.capture.replay import load
from tests.hardware.bench import Bench
from tests.hardware.loads import NoLoads, ProgramLoads
from tests.hardware.report import differing

SPEAKS = """
import json, sys, time
say = lambda event, steps: print(json.dumps({"event": event, "time": time.time(), "steps": steps}), flush=True)
print("a line of some library")
say("ready", 0)
say("progress", 5)
for line in sys.stdin:
    say("mark", float(line) * int(float(sys.argv[2])))
say("end", 7)
"""


def loads(code: str) -> ProgramLoads:
    return ProgramLoads("python", (sys.executable, "-c", code), os.environ)


def test_load_is_heard_and_commanded_until_its_end() -> None:
    with loads(SPEAKS).start("kind", 3.0) as running:
        assert running is not None
        mark = running.command("2")
        during = [steps for _, steps in running.history("steps")]

    assert mark["steps"] == 6.0
    assert during == [0.0, 5.0, 6.0]
    assert running.process.returncode == 0
    assert [steps for _, steps in running.history("steps")] == [0.0, 5.0, 6.0, 7.0]


def test_load_that_fails_is_no_load() -> None:
    with (
        pytest.raises(RuntimeError, match="ended with status 3 before it said 'ready'"),
        loads("raise SystemExit(3)").start("kind"),
    ):
        raise AssertionError("it started")


def test_load_that_died_answers_no_command() -> None:
    dies = SPEAKS.replace("for line in sys.stdin:", "raise SystemExit(4)\nfor line in sys.stdin:")
    with loads(dies).start("kind") as running:
        assert running is not None
        running.process.wait(30)
        running.history("steps")
        with pytest.raises((RuntimeError, BrokenPipeError)):
            running.command("1")


def test_no_loads_say_so() -> None:
    with NoLoads().start("dense") as running:
        assert (running, NoLoads().name) == (None, "none")


def test_load_that_does_not_start_is_said_and_the_part_goes_on(tmp_path: Path) -> None:
    capture = next((Path(__file__).parents[2] / "captures").glob("*.json"))
    bench = Bench(load(capture), 0, loads("raise SystemExit(3)"), 0.0, tmp_path, "part")

    for _ in range(2):
        with bench.load("dense") as running:
            assert running is None

    kept = json.loads((tmp_path / "part.json").read_text())
    assert kept == {"loads_failed": ["dense: the load ended with status 3 before it said 'ready'"]}
    assert differing({"part": kept}) == 1
