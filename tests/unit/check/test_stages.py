"""What each stage of a check asks, what a job may leave behind, and the site's own program."""

from __future__ import annotations

import json

import pytest

from exporter.attribution.devices import DeviceName
from exporter.faults.evaluate import STAGES, evaluate
from exporter.faults.rule import Facts, Limits, Verdict
from exporter.faults.rules import NAMES
from exporter.tools.check import command as command_line
from exporter.tools.check.exporter_page import parse
from exporter.tools.check.program import command, finding_of
from exporter.tools.check.reading import job_gpus, to_json
from tests.captures import simulated
from tests.command import run
from tests.unit.check.nodes import FIRES
from tests.unit.check.test_check_command import check

TWO = """\
gpu_exporter_build_info{version="1",python="3"} 1
gpu_up{gpu="0",uuid="GPU-a"} 1
gpu_up{gpu="1",uuid="GPU-b"} 1
gpu_info{gpu="0",uuid="GPU-a",minor_number="1"} 1
gpu_info{gpu="1",uuid="GPU-b",minor_number="0"} 1
"""


def on(gpu: str, pid: int, command: str, gib: float) -> str:
    uuid = {"0": "GPU-a", "1": "GPU-b"}[gpu]
    labels = f'gpu="{gpu}",uuid="{uuid}",pid="{pid}",command="{command}"'
    return f"gpu_process_memory_bytes{{{labels}}} {gib * 2**30}\n"


def node(*more: str) -> Facts:
    return parse(TWO + "".join(more), 0.0)


def found(facts: Facts, limits: Limits, stage: str = "epilog") -> list[tuple[str, str]]:
    return [(f.gpu, f.reason) for f in evaluate(facts, limits, STAGES[stage].left_out).findings]


def test_epilog_names_what_is_left_with_the_most_memory_first() -> None:
    facts = node(*(on("0", 10 + n, "python3", n) for n in range(5)))

    reason = "10.0 GiB of processes that ended jobs left on it: 14 (python3), 13 (python3), 12 (python3) and 2 more"
    assert found(facts, Limits()) == [("0", reason)]


@pytest.mark.parametrize(
    "shown",
    [
        'gpu_process_utilization_ratio{gpu="0",uuid="GPU-a",pid="10",command="python3",engine="sm"} 0\n',
        'gpu_process_start_time_seconds{gpu="0",uuid="GPU-a",pid="10",command="python3"} 1.8e9\n',
    ],
)
def test_process_whose_memory_the_driver_does_not_know_is_left_all_the_same(shown: str) -> None:
    alone = "an unknown number of GiB of processes that ended jobs left on it: 10 (python3)"
    beside = "2.0 GiB of processes that ended jobs left on it: 11 (python3), 10 (python3)"

    assert found(node(shown), Limits()) == [("0", alone)]
    assert found(node(shown, on("0", 11, "python3", 2)), Limits()) == [("0", beside)]
    assert found(node(shown), Limits(allowed=("python",))) == []


def test_only_the_gpus_of_the_ended_job_must_be_empty() -> None:
    """Slurm names devices by their files, /dev/nvidia0 here being the GPU that NVML calls 1."""
    facts = node(on("0", 10, "python3", 1), on("1", 11, "python3", 2))

    assert [gpu for gpu, _ in found(facts, Limits(emptied=(DeviceName(minor=0),)))] == ["1"]
    assert [gpu for gpu, _ in found(facts, Limits(emptied=(DeviceName(driver_index=0),)))] == ["0"]
    assert [gpu for gpu, _ in found(facts, Limits(emptied=(DeviceName(uuid="GPU-a"),)))] == ["0"]
    assert found(facts, Limits(emptied=())) == []
    assert [gpu for gpu, _ in found(facts, Limits())] == ["0", "1"]


def test_gpu_on_which_another_job_runs_is_not_the_ended_jobs_alone() -> None:
    """Slurm's epilog is not told of shards: of the two jobs on GPU 0 number 7 has ended, and 8 goes on."""
    both = node(*(on("0", pid, "python3", 1).replace("}", f',slurm_job="{pid}"}}') for pid in (7, 8)))
    one = node(on("0", 7, "python3", 1).replace("}", ',slurm_job="7"}'), on("0", 9, "python3", 1))
    limits = Limits(emptied=(DeviceName(driver_index=0),), job="7")

    assert found(both, limits) == []
    assert [gpu for gpu, _ in found(one, limits)] == ["0"]


def test_service_of_the_site_may_stay() -> None:
    assert found(node(on("0", 10, "nv-hostengine", 0.4)), Limits(allowed=("nv-hostengine",))) == []


@pytest.mark.parametrize(
    ("environment", "gpus"),
    [
        ({}, None),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,3"}, (DeviceName(driver_index=0), DeviceName(driver_index=3))),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "GPU-a"}, (DeviceName(uuid="GPU-a"),)),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0", "CUDA_VISIBLE_DEVICES": "MIG-a"}, ()),
        ({"SLURM_JOB_ID": "7"}, ()),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0", "SLURM_SHARDS_ON_NODE": "2"}, ()),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}, ()),
    ],
)
def test_gpus_of_the_ended_job_are_those_it_had_to_itself(
    environment: dict[str, str], gpus: tuple[DeviceName, ...] | None
) -> None:
    assert job_gpus(environment, ()) == gpus


def test_gpus_of_the_ended_job_are_places_in_gres_conf() -> None:
    devices = (DeviceName(minor=4), DeviceName(minor=1, gpu_instance=2), None)

    assert job_gpus({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,1,2,3"}, devices) == (DeviceName(minor=4),)


def test_place_alone_is_no_gpu_where_slurm_counts_instances() -> None:
    split = 'gpu_mig_info{gpu="1",uuid="MIG-b",parent_uuid="GPU-b",profile="1g.10gb",gi="1",ci="0"} 1\n'
    facts = node(on("0", 10, "python3", 1), split)

    assert found(facts, Limits(emptied=(DeviceName(driver_index=0),))) == []


def test_running_job_is_no_fault_before_it_ends() -> None:
    facts = node(on("0", 10, "python3", 1))

    assert found(facts, Limits(), "prolog") == found(facts, Limits(), "periodic") == []
    assert found(facts, Limits(), "full") != []


@pytest.mark.parametrize("recorded", ["sim__T4__470.82.01__idle-loaded", "vm__H200__580.159.04__idle"])
def test_recording_is_read_once_for_nothing_ends_in_it(recorded: str) -> None:
    """`check` gave the processes of a recording five minutes to end."""
    done = check("--check.stage=full", f"--driver.capture={simulated.folder()}/{recorded}.json")

    left = "8.7 GiB of processes that ended jobs left on it: 1334000" in done.stdout
    assert (done.returncode, left) == ((2, True) if recorded.startswith("sim") else (0, False)), done.stdout


def test_prolog_and_epilog_end_with_0_or_with_failed() -> None:
    """Slurm drains a node whose prolog ends with anything but 0: a slow link is no reason for that."""
    slow = node(f"{FIRES['pcie_width']}\n")

    assert evaluate(slow, Limits(), STAGES["prolog"].left_out, STAGES["prolog"].least).verdict is Verdict.OK
    assert evaluate(slow, Limits(), STAGES["periodic"].left_out).verdict is Verdict.DEGRADED


def test_stages_have_budgets_that_fit_where_they_run() -> None:
    budgets = {name: stage.budget for name, stage in STAGES.items()}

    assert budgets["prolog"] <= budgets["epilog"] <= budgets["periodic"] < 50 < budgets["full"]
    assert all(stage.left_out <= set(NAMES) for stage in STAGES.values())
    assert {name for name, stage in STAGES.items() if stage.resumes} == {"periodic", "full"}


def test_program_of_the_site_that_fails_is_a_finding_with_its_last_line() -> None:
    assert finding_of(command("true"), 20) is None
    failed = finding_of(command("sh -c 'echo 12 GB/s; echo too slow; exit 3'"), 20)
    late = finding_of(command("sh -c 'sleep 600'"), 0.2)

    assert failed
    assert (failed.verdict, failed.reason, failed.hands) == (Verdict.FAILED, "sh: too slow", True)
    assert late
    assert "does not end" in late.reason


@pytest.mark.parametrize(
    ("more", "verdict", "status"),
    [
        ((), "unknown: --check.program: dcgmi: cannot be run: No such file or directory", 3),
        (("--expect.gpus", "2"), "failed (simulated): 1 GPU reachable (1 x H200)", 2),
    ],
)
def test_program_that_is_not_there_says_nothing_of_the_gpus(more: tuple[str, ...], verdict: str, status: int) -> None:
    """With `--drain` every node of a cluster would be drained for a slip of the key, to be mended by hand."""
    full = ("--check.stage", "full", "--check.ignore", "leftover,leaked", "--check.program", "/nonexistent/dcgmi diag")
    done = check("--simulate", "1xH200", *full, *more)

    assert (done.stdout.splitlines()[0], done.returncode) == (verdict, status)


def test_command_that_cannot_be_split_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a command as a shell takes it \(No closing quotation\)"):
        command("diag '")


def test_command_says_what_is_left_when_its_time_is_over() -> None:
    done = check("--simulate", "1xH200", "--check.stage", "epilog", "--check.deadline", "6s", "--format", "json")

    assert done.returncode == 2, done.stderr
    assert [finding["rule"] for finding in json.loads(done.stdout)["findings"]] == ["leftover"]


@pytest.mark.parametrize(("answers", "rule"), [(1, "leftover"), (0, "driver_hangs")])
def test_only_the_first_look_can_say_that_the_driver_hangs(
    monkeypatch: pytest.MonkeyPatch, answers: int, rule: str
) -> None:
    """A node must not be drained for its driver because the machine stalled while processes were ending."""
    pages: list[str | None] = [to_json(node(on("0", 10, "python3", 1)))] * answers
    monkeypatch.setattr(command_line, "in_child_process", lambda *_: pages.pop() if pages else None)
    monkeypatch.setattr(command_line, "_PAUSE", 0.0)

    done = run("check", "--simulate", "2xH200", "--check.stage", "epilog", "--format", "json")

    assert (done.returncode, [each["rule"] for each in json.loads(done.stdout)["findings"]]) == (2, [rule])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--check.stage", "full", "--check.program", "a '"],
            "--check.program: expected a command as a shell takes it",
        ),
        (["--check.program", "true"], "--check.program: expected with --check.stage=full"),
        (["--check.stage", "epilog", "--check.url", "http://127.0.0.1:1/"], "--check.url: an exporter's last reading"),
        (["--check.stage", "burn"], "--check.stage: expected one of prolog, epilog, periodic, full"),
    ],
)
def test_what_does_not_fit_the_stage_is_refused(arguments: list[str], says: str) -> None:
    done = run("check", *arguments)

    assert (done.returncode, done.stdout) == (3, "")
    assert says in done.stderr
