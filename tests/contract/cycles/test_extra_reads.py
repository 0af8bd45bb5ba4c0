"""Between two cycles only processes are looked at whose GPU waited for a cause that one look may have missed."""

from __future__ import annotations

import pytest

from exporter.attribution.owner import Ownership, WorkloadInfo
from exporter.host.model import HostSignals, ProcessSignals
from tests.contract.cycles.node import ScriptedNode
from tests.contract.cycles.parts import JOB, process, runs
from tests.contract.cycles.rig import Rig, gpu


@pytest.mark.parametrize(
    ("busy", "thread", "blocked", "reads"),
    [(50, 0.4, 0.0, 4), (50, 0.0, 1.0, 4), (50, 0.0, 0.0, 0), (50, 1.0, 0.0, 0), (100, 0.4, 0.0, 0)],
    ids=["alternates", "in D state", "slept all the time", "full thread", "GPU busy"],
)
def test_extra_reads_where_the_state_is_in_question(busy: int, thread: float, blocked: float, reads: int) -> None:
    signals = HostSignals(processes={10: ProcessSignals(thread, blocked, 0.0, polling=False)})
    node = ScriptedNode(
        hosts={10: process(10)},
        owned=Ownership({10: JOB}, {"GPU-0": (JOB,)}, info={JOB: WorkloadInfo()}),
        signals={JOB: signals},
    )
    device = gpu(0, ComputeRunningProcesses=runs(10))
    rig = Rig([device], node)
    device.answers["nvmlDeviceGetSamples"] = lambda _kind, cursor: [
        (each * 200_000, float(busy if each > 1 else 0))  # a sample of 0 shows that the driver keeps idle time
        for each in range(1, round(rig.seconds * 5) + 6)
        if each * 200_000 > cursor
    ]
    rig.cycles(5)

    assert rig.sampler.extra_reads() == reads
    rig.sampler.read_again()
    assert node.looked_at == ([(10,)] if reads else [])
    rig.stop()
