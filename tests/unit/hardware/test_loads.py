from __future__ import annotations

import os
import sys

import pytest

from tests.hardware.loads import NoLoads, ProgramLoads

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
