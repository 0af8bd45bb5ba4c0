"""A machine that stands still for many seconds: no time of a GPU is lost, and none is given to the wrong owner."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from exporter.attribution.owner import Ownership, WorkloadInfo
from exporter.driver.interface import Record
from exporter.sampling.gpus import GpuThreads
from tests.contract.cycles.node import ScriptedNode
from tests.contract.cycles.parts import JOB, POD, process, runs
from tests.contract.cycles.rig import BEGIN, Rig, gpu

STALL = 20.0
BUSY = 80


def rig(*, sampled: bool = True, kept: int = 100) -> Rig:
    """A job's GPU that is busy for four fifths of every second, by the driver's samples or by its readings."""
    device = gpu(0, ComputeRunningProcesses=runs(10), UtilizationRates=Record(gpu=BUSY, memory=20))
    found = Rig([device], ScriptedNode(hosts={10: process(10), 11: process(11)}, owned=owned(10)))
    if sampled:
        device.answers["nvmlDeviceGetSamples"] = lambda _kind, cursor: samples(found, cursor, kept)
    else:
        del device.answers["nvmlDeviceGetSamples"], device.answers["nvmlGpmMetricsGet"]
    return found


def owned(pid: int) -> Ownership:
    owner = JOB if pid == 10 else POD
    return Ownership({pid: owner}, {"GPU-0": (owner,)}, info={owner: WorkloadInfo()})


def samples(rig: Rig, cursor: int, kept: int) -> Iterable[tuple[int, float]]:
    """What the driver's buffer keeps: one sample a second, of so many seconds."""
    now = int(BEGIN + rig.seconds)
    return [
        (second * 1_000_000, float(BUSY)) for second in range(now - kept + 1, now + 1) if second * 1_000_000 > cursor
    ]


def value(rig: Rig, name: str, *labels: str) -> float:
    rows = rig.text(name).splitlines()
    found = [row for row in rows if not row.startswith("#") and all(label in row for label in labels)]
    return sum(float(re.split(" ", row)[-1]) for row in found)


def used(rig: Rig, *labels: str) -> float:
    return value(rig, "gpu_workload_busy_gpu_seconds_total", *labels)


@pytest.mark.parametrize(
    ("stall", "sampled", "kept", "covered"),
    [(20.0, True, 100, 20.0), (300.0, True, 14, 14.0), (20.0, False, 0, 5.0), (300.0, False, 0, 5.0)],
    ids=["all in the buffer", "14 s in the buffer", "no buffer", "no buffer, long"],
)
def test_busy_and_unobserved_time_of_a_stopped_exporter_agree(
    stall: float, covered: float, kept: int, *, sampled: bool
) -> None:
    """What is not in the driver's buffer is lost to the busy seconds, and unobserved. A reading stands for 5 s."""
    found = rig(sampled=sampled, kept=kept)
    found.cycles(5)
    found.seconds += stall - 1.0
    found.cycles(5)

    lost = value(found, "gpu_exporter_samples_lost_seconds_total")
    states = value(found, "gpu_state_seconds_total")
    unobserved = value(found, "gpu_state_seconds_total", 'state="unobserved"')
    assert lost == unobserved == pytest.approx(stall - covered)
    assert value(found, "gpu_busy_seconds_total") == pytest.approx(BUSY / 100 * (states - lost))
    assert used(found, 'workload="slurm:4711"') == pytest.approx(value(found, "gpu_busy_seconds_total"))
    assert used(found) == pytest.approx(value(found, "gpu_busy_seconds_total"))
    found.stop()


def test_who_was_not_seen_before_it_did_not_run_in_it() -> None:
    found = rig()
    found.cycles(5)
    before = used(found)
    found.gpus[0].answers["nvmlDeviceGetComputeRunningProcesses"] = runs(11)
    found.node.owned = owned(11)
    found.seconds += STALL - 1.0
    found.cycles()

    assert used(found, 'workload="team/train"') == 0.0
    assert used(found, 'workload=""') + before == pytest.approx(value(found, "gpu_busy_seconds_total"))
    found.stop()


def test_gpu_that_answers_late_has_the_time_since_its_last_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rig()
    found.cycles(5)
    with monkeypatch.context() as patch:
        patch.setattr(GpuThreads, "read", lambda _self, tasks, *_: dict.fromkeys(tasks))
        found.cycles(6)
    found.cycles(2)

    assert value(found, "gpu_state_seconds_total", 'state="unobserved"') == pytest.approx(6.0)
    assert used(found, 'workload="slurm:4711"') == pytest.approx(value(found, "gpu_busy_seconds_total"))
    found.stop()
