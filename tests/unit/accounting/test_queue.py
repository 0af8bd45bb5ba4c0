"""Waiting jobs of Slurm as metrics: by reason, size and time, and absent while squeue fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.tools.report.accounting.metrics import Queue, WaitingJob, parse, waiting

NOW = 10_000.0
TEXT = """\
cpu=8,mem=64G,node=1,billing=8,gres/gpu=4|N/A|gres/gpu:4|1|9900|Resources|
cpu=16,node=2,billing=16,gres/gpu=16,gres/gpu:h100=16|N/A|gres/gpu:h100:8|2|9000|Priority|
cpu=1,mem=1G,node=1,billing=1|N/A|N/A|1|9000|Resources|
cpu=8,node=1|N/A|gres/gpu:2|1|9990|QOSMaxGRESPerUser|
cpu=8,node=1|gres/gpu:a100:1|N/A|1|9990|JobHeldUser|
cpu=8,node=2|N/A|gres/gpu:4|2|9800|ReqNodeNotAvail, UnavailableNodes:n1|
not of squeue
"""
"""Output of squeue, with gres/gpu among AccountingStorageTRES and without."""


def samples(queue: Queue) -> dict[tuple[str, ...], float]:
    return {
        (family.name.removeprefix("gpu_accounting_waiting_"), *sample.labels.values()): sample.value
        for family in queue.collect()
        for sample in family.samples
    }


def test_only_jobs_with_gpus_wait_for_gpus() -> None:
    queue = Queue(lambda: NOW)
    queue.jobs = list(parse(TEXT.splitlines()))

    assert samples(queue) == {
        ("gpus", "capacity"): 28.0,
        ("gpus", "limit"): 2.0,
        ("gpus", "other"): 1.0,
        ("jobs", "4"): 1.0,
        ("jobs", "8"): 1.0,
        ("jobs", "16"): 1.0,
        ("seconds", "0.5"): 200.0,
        ("seconds", "0.95"): pytest.approx(920.0),
        ("seconds", "1"): 1000.0,
        ("smallest_gpus",): 4.0,
    }


def test_nothing_is_shown_of_a_queue_that_was_not_read() -> None:
    assert samples(Queue(lambda: NOW)) == {}


def test_squeue_is_asked_for_pending_jobs_of_everybody_and_each_element_of_an_array(tmp_path: Path) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" "$SLURM_TIME_FORMAT" > {tmp_path}/asked; cat {tmp_path}/said\n')
    squeue.chmod(0o755)
    (tmp_path / "said").write_text("node=2,gres/gpu=8|N/A|gres/gpu:4|2|9700|(Priority)|\n")

    assert waiting(str(squeue)) == [WaitingJob(8.0, 2, 9700.0, "capacity")]
    columns = "tres-alloc:|,tres-per-job:|,tres-per-node:|,NumNodes:|,SubmitTime:|,Reason:|"
    assert (tmp_path / "asked").read_text().split() == ["-h", "-a", "-r", "-t", "PD", "-O", columns, "%s"]


@pytest.mark.parametrize(
    ("line", "job"),
    [
        ("N/A|N/A|gres/gpu:4|3|9|Licenses|", WaitingJob(12.0, 3, 9.0, "limit")),  # per node
        ("N/A|gres/gpu:4|N/A|3|9|None|", WaitingJob(4.0, 3, 9.0, "capacity")),
        ("N/A|N/A|gpu:h100:4|N/A|9|Dependency|", WaitingJob(4.0, 1, 9.0, "other")),
        ("N/A|N/A|gres/gpu:4|0|9|None|", WaitingJob(4.0, 1, 9.0, "capacity")),
        ("gres/gpumem=80G|N/A|N/A|1|9|None|", None),
        ("gres/gpu=4|N/A|N/A|1|N/A|None|", None),  # a time that is not known
        ("gres/gpu=4|N/A|N/A|1|9|None", None),  # cut off
    ],
)
def test_waiting_job_has_its_gpus_nodes_and_reason(line: str, job: WaitingJob | None) -> None:
    assert list(parse([line, TEXT.splitlines()[-3]])) == [*((job,) if job else ()), WaitingJob(1, 1, 9990, "other")]


def test_metrics_of_the_queue_say_what_they_count() -> None:
    queue = Queue(lambda: NOW)
    queue.jobs = [WaitingJob(65.0, 2, 9_000.0, "capacity"), WaitingJob(3.0, 1, 9_000.0, "capacity")]

    assert {family.name: (family.type, family.documentation) for family in queue.collect()} == {
        "gpu_accounting_waiting_gpus": ("gauge", "GPUs that pending jobs of Slurm request, by what they wait for."),
        "gpu_accounting_waiting_jobs": (
            "gauge",
            "Jobs that wait for capacity, by requested GPUs, up to a power of two.",
        ),
        "gpu_accounting_waiting_seconds": ("gauge", "Time that jobs have waited for capacity."),
        "gpu_accounting_waiting_smallest_gpus": (
            "gauge",
            "GPUs per node of the smallest job that waits for capacity.",
        ),
    }
    sizes = {key[1]: number for key, number in samples(queue).items() if key[0] == "jobs"}
    assert sizes == {"more": 1.0, "4": 1.0}
