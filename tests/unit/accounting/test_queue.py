"""Waiting jobs of Slurm as metrics: by reason, size and time, and absent while squeue fails."""

from __future__ import annotations

import pytest

from exporter.tools.report.accounting.queue import Queue, parse

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
