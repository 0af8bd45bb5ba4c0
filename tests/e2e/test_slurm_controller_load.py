"""What a job start costs a real slurmctld with 10,000 nodes: RPCs by sdiag, bytes by a relay before slurmctld."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from exporter.attribution.slurm.scontrol import TIMEOUT_SECONDS
from tests.attribution_kit.nodes import until
from tests.attribution_kit.slurm_cluster import LACKING, TRACKING
from tests.attribution_kit.slurm_large import LargeCluster
from tests.attribution_kit.slurm_observer import Observer, observing

pytestmark = [
    pytest.mark.deep,
    pytest.mark.xdist_group("slurm"),
    pytest.mark.skipif(bool(LACKING), reason=LACKING),
]

MAX_BYTES = 10_000
TABLES = ("REQUEST_NODE_INFO", "REQUEST_PARTITION_INFO", "REQUEST_JOB_INFO", "REQUEST_FED_INFO")
"""Questions whose answers grow with the cluster, and scontrol's question about the federation."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LargeCluster]:
    started = LargeCluster(TRACKING[0])
    with started:
        yield started


def _asked(cluster: LargeCluster, before: Mapping[str, int]) -> dict[str, int]:
    now = cluster.requests()
    return {
        name: found
        for name in ("REQUEST_JOB_INFO_SINGLE", *TABLES)
        if (found := now.get(name, 0) - before.get(name, 0))
    }


Record = Callable[[str, object], None]


def _start(cluster: LargeCluster, name: str, *options: str) -> str:
    """Return the job's id. squeue is not asked: it costs RPCs itself."""
    return cluster.run(
        "sbatch", "--parsable", "-o", "/dev/null", "-J", name, *options, "--wrap", f"exec {cluster.hold}"
    ).strip()


def _named(observer: Observer, job: str, name: str) -> bool:
    found = observer.observe()
    infos = [info.job_name for owner, info in found.info.items() if owner.slurm_job == job]
    weights = [weight for (_, owner), weight in found.weights.items() if owner.slurm_job == job]
    return infos == [name] and weights == [1.0, 1.0]


def test_start_of_a_job_with_the_prolog_is_one_rpc_below_10_kb(cluster: LargeCluster, record_property: Record) -> None:
    with observing(cluster) as observer:
        before, connections, answered = cluster.requests(), cluster.relay.connections, cluster.relay.answered_bytes
        job = _start(cluster, "prolog", "--gres=gpu:2")
        until(lambda: _named(observer, job, "prolog"))

        assert _asked(cluster, before) == {"REQUEST_JOB_INFO_SINGLE": 1}
        assert cluster.relay.connections - connections == 1
        assert 0 < cluster.relay.answered_bytes - answered < MAX_BYTES
        record_property("measured", f"sdiag: 1 RPC, {cluster.relay.answered_bytes - answered} bytes with the prolog")
    cluster.run("scancel", job)
    until(lambda: not cluster.run("squeue", "-h"))


def test_slow_slurmctld_is_asked_about_a_job_once(cluster: LargeCluster) -> None:
    """Its answer takes longer than any other command of the exporter may."""
    cluster.relay.delay = TIMEOUT_SECONDS + 3.0
    try:
        with observing(cluster) as observer:
            before, connections = cluster.requests(), cluster.relay.connections
            job = _start(cluster, "slow", "--gres=gpu:2")
            until(lambda: _named(observer, job, "slow"))

            assert _asked(cluster, before) == {"REQUEST_JOB_INFO_SINGLE": 1}
            assert cluster.relay.connections - connections == 1
    finally:
        cluster.relay.delay = 0.0
    cluster.run("scancel", job)
    until(lambda: not cluster.run("squeue", "-h"))


def test_start_of_a_job_without_prolog_costs_as_little_where_scontrol_has_json(
    cluster: LargeCluster, record_property: Record
) -> None:
    """Slurm 22.05 has the GPUs of a job only beside the table of all nodes: its nodes need the prolog.

    Until that answer, the GPUs are those of the job's own environment.
    """
    with observing(cluster, mapping=False) as observer:
        before, answered = cluster.requests(), cluster.relay.answered_bytes
        job = _start(cluster, "bare", "--gres=gpu:2")
        until(lambda: _named(observer, job, "bare"))

        if cluster.scontrol_has_json:
            assert _asked(cluster, before) == {"REQUEST_JOB_INFO_SINGLE": 1}
            assert cluster.relay.answered_bytes - answered < MAX_BYTES
        else:
            until(lambda: _asked(cluster, before) == {"REQUEST_JOB_INFO_SINGLE": 2, "REQUEST_NODE_INFO": 1})
            assert cluster.relay.answered_bytes - answered > 1_000_000
        asked, answered = _asked(cluster, before), cluster.relay.answered_bytes - answered
        record_property("measured", f"sdiag: {asked}, {answered} bytes without the prolog")
    cluster.run("scancel", job)
    until(lambda: not cluster.run("squeue", "-h"))


def test_start_of_a_job_without_gpus_costs_no_table(cluster: LargeCluster) -> None:
    """The first job's question for details, if any, would come before that about the second job."""
    with observing(cluster, mapping=False) as observer:
        before, answered = cluster.requests(), cluster.relay.answered_bytes
        _start(cluster, "first")
        until(lambda: (observer.observe(), _asked(cluster, before))[1])
        _start(cluster, "second")
        until(lambda: (observer.observe(), _asked(cluster, before))[1]["REQUEST_JOB_INFO_SINGLE"] > 1)

        assert _asked(cluster, before) == {"REQUEST_JOB_INFO_SINGLE": 2}
        assert cluster.relay.answered_bytes - answered < 2 * MAX_BYTES
    cluster.run("scancel", "-u", "root")
    until(lambda: not cluster.run("squeue", "-h"))
