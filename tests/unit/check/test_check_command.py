"""`gpu-exporter check` as a process: verdicts of simulated faults, statuses, a driver that hangs, wrong input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from exporter.tools.check import command as command_line
from tests.command import run
from tests.unit.check.test_check_url import serving


def check(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "exporter", "check", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **environment}
    )


@pytest.mark.parametrize(
    ("spec", "status", "rules"),
    [
        ("2xH200", 0, set()),
        ("2xL40S;fault=thermal:0@0;fault=pcie-degraded:1@0", 1, {"hw_thermal", "pcie_width"}),
        ("4xA100;fault=lost:2@0", 2, {"gpu_missing"}),
        ("2xH200;fault=row-remap-failed:1@0", 2, {"row_remap_failed"}),
        ("2xH100;fault=driver-gone:all@0", 2, {"driver"}),
    ],
)
def test_verdict_on_simulated_faults(spec: str, status: int, rules: set[str]) -> None:
    done = check("--simulate", spec, "--format", "json", "--check.deadline", "10s")
    report = json.loads(done.stdout)

    assert done.returncode == status, done.stderr
    assert rules <= {finding["rule"] for finding in report["findings"]}
    assert bool(rules) == bool(report["findings"])
    assert report["simulated"] is True


def test_gpu_that_hangs_is_a_verdict() -> None:
    done = check("--simulate", "2xH200;fault=hang:1@0", "--format", "nagios", "--check.deadline", "3s")

    assert done.returncode == 1
    assert done.stdout.startswith("GPU WARNING (simulated) - GPU 1: its readings are stale, ")


def test_same_verdict_from_the_metrics_as_from_the_driver() -> None:
    spec = "2xA100;fault=row-remap-pending:0@0;fault=nvlink-down:1@0;start=1790000000"
    once = subprocess.run(
        [sys.executable, "-m", "exporter", "once", "--simulate", spec], capture_output=True, text=True, check=True
    )
    with serving(200, once.stdout) as url:
        served = json.loads(check("--check.url", url, "--format", "json").stdout)

    direct = json.loads(check("--simulate", spec, "--format", "json").stdout)
    assert served["findings"]
    assert {f["rule"] for f in direct["findings"]} <= {f["rule"] for f in served["findings"]}
    assert (served["verdict"], served["gpus"], served["models"]) == (
        direct["verdict"],
        direct["gpus"],
        direct["models"],
    )


def test_node_problem_detector_has_its_own_statuses() -> None:
    spec = "2xL40S;fault=pcie-degraded:0@0"

    assert check("--simulate", spec, "--format", "npd").returncode == 0
    assert check("--simulate", spec, "--format", "npd", "--check.fail-on", "degraded").returncode == 1
    assert check("--format", "npd", "--check.url", "http://127.0.0.1:1/").returncode == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--expect.gpus", "eight"], "--expect.gpus: expected a whole number, got 'eight'"),
        (["--check.ignore", "heat"], "--check.ignore: expected some of"),
        (["--drain", "--simulate", "1xH200"], "--drain: a node is not drained for GPUs that are simulated"),
        (["--format", "xml"], "--format: expected one of text, json, nagios, npd, got 'xml'"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
    ],
)
def test_wrong_input_is_one_line_and_never_looks_like_a_failed_gpu(arguments: list[str], says: str) -> None:
    done = run("check", *arguments)

    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert says in done.stderr
    assert not done.stdout


def test_check_of_the_driver_does_not_load_the_http_library() -> None:
    """Slurm runs the check before each job: what it does not need is CPU taken from the job."""
    program = "import runpy, sys\ntry: runpy.run_module('exporter', run_name='__main__')\nexcept SystemExit: pass\n"
    program += "print(sorted({'requests', 'prometheus_client'} & set(sys.modules)), file=sys.stderr)"
    command = [sys.executable, "-c", program, "check", "--simulate", "1xT4"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout.startswith("ok")
    assert done.stderr == "[]\n"


def test_work_that_hangs_gives_nothing_and_work_that_dies_says_how() -> None:
    """As a process of its own: forking beside the test runner's threads is not what a command does."""
    program = """
import os, signal, time
from exporter.tools.check.reading import ChildError, in_child_process

def died(work):
    began = time.monotonic()
    try:
        in_child_process(work, 20)
    except ChildError as error:
        assert time.monotonic() - began < 15
        return str(error), error.crashed

assert in_child_process(lambda: "text", 20) == "text\\n"
assert in_child_process(lambda: time.sleep(100) or "", 0.2) is None
assert died(lambda: 1 / 0) == ("the check itself failed: ZeroDivisionError: division by zero", False)
assert died(lambda: os.abort()) == ("the driver's library crashes: SIGABRT", True)
killed = died(lambda: os.kill(os.getpid(), signal.SIGKILL))
assert killed == ("the process that asks the driver was ended: SIGKILL", False)
assert died(lambda: os._exit(0)) == ("the check itself failed: it ended without an answer", False)
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=30, check=False).returncode == 0


def test_driver_library_itself_is_read_and_a_lost_gpu_found(fake_nvml: Callable[..., Any]) -> None:
    fake = fake_nvml()
    well = check("--format", "json", "--expect.gpus", "2", **fake.environment)
    fake.scenario.set({"gpu1.lost": 1, "gpu0.clock_reasons": 0x40})
    lost = check("--format", "json", "--expect.gpus", "2", **fake.environment)

    assert (well.returncode, json.loads(well.stdout)["gpus"], well.stderr) == (0, 2, "")
    assert lost.returncode == 2
    assert [finding["rule"] for finding in json.loads(lost.stdout)["findings"]] == ["gpu_missing", "hw_thermal"]


@pytest.mark.parametrize(
    "wrong", [MemoryError(), ImportError("no memory to map it"), PermissionError(13, "no"), KeyError("a bug")]
)
def test_what_nobody_expected_is_no_verdict_on_the_node(wrong: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's own status of a program that breaks off is 1, which is this command's for a degraded node."""

    def fails(*_: object) -> None:
        raise wrong

    monkeypatch.setattr(command_line, "_make_report", fails)
    done = run("check", "--simulate", "1xT4")

    assert (done.returncode, done.stdout) == (3, "")
    assert type(wrong).__name__ in done.stderr.splitlines()[-1]


def test_where_no_thread_can_be_started_no_gpu_is_said_to_be_silent() -> None:
    """The limit of a cgroup or of memory is the check's trouble: the GPUs were not asked."""
    program = (
        "import sys, threading\n"
        'def refused(self): raise RuntimeError("can\'t start new thread")\n'
        "threading.Thread.start = refused\n"
        "from exporter.__main__ import main\n"
        "sys.exit(main(['check', '--simulate', '2xH200', '--check.deadline', '4s', '--log.level', 'error']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 3
    assert done.stdout.startswith("unknown: the check itself failed: RuntimeError: thread ")
    assert done.stdout.endswith(" does not run\n")


def test_call_that_hangs_in_the_driver_library_is_a_verdict(fake_nvml: Callable[..., Any]) -> None:
    """The command ends though the call does not: the process that made it is left behind and killed."""
    fake = fake_nvml({"gpu1.call.nvmlDeviceGetUtilizationRates": "SLEEP 600"})
    one = check("--format", "nagios", "--check.deadline", "6s", **fake.environment)
    fake.scenario.set({"gpu1.call.*": "SLEEP 600"})  # the driver cannot even list its GPUs
    whole = check("--format", "nagios", "--check.deadline", "4s", **fake.environment)

    assert one.returncode == 1
    assert one.stdout.startswith("GPU WARNING - GPU 1: its readings are stale, ")
    assert whole.returncode == 2
    assert whole.stdout.startswith("GPU CRITICAL - the driver, or one of its GPUs, hangs")
