"""What class of work a workload is, by what is known of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.attribution.kubernetes.pod import Pod
from exporter.attribution.kubernetes.projects import KINDS
from exporter.attribution.kubernetes.root import pod_info
from exporter.attribution.owner import Owner, WorkloadInfo
from exporter.attribution.work_class import ClassRule, WorkClass, WorkClasses, classify, parse_rules
from exporter.host.model import HostSignals

POD = Owner("ml/web", "pod", namespace="ml", pod="web")
JOB = Owner("slurm:7", "slurm", slurm_job="7", account="physics", partition="debug-gpu")
BARE = Owner("process:python3", "process", user="ada")
NOTEBOOK = HostSignals(programs=("python -m ipykernel_launcher -f x.json", "jupyter-lab"))
SERVER = HostSignals(programs=("python -m vllm.entrypoints.openai.api_server",))
RANKS_OF_SERVER = HostSignals(serves=False, programs=("vllm::worker_tp0", "vllm::enginecore", "python /bin/vllm serve"))
OFFLINE = HostSignals(serves=False, programs=("vllm::worker_tp0", "vllm::enginecore", "python offline_inference.py"))
LISTENS = HostSignals(serves=True, programs=("python app.py",))


@pytest.mark.parametrize(
    ("owner", "info", "host", "told"),
    [
        (POD, WorkloadInfo(requested_class="batch", owner_kind="ReplicaSet"), LISTENS, WorkClass("batch", "label")),
        (POD, WorkloadInfo(requested_class="anything"), HostSignals(), WorkClass()),
        (POD, WorkloadInfo(owner_kind="ReplicaSet"), HostSignals(), WorkClass("service", "scheduler")),
        (POD, WorkloadInfo(owner_kind="Job"), LISTENS, WorkClass("batch", "scheduler")),
        (POD, WorkloadInfo(owner_kind="Job"), SERVER, WorkClass("batch", "scheduler")),
        (POD, WorkloadInfo(owner_kind="Job"), replace(SERVER, serves=True), WorkClass("service", "program")),
        (POD, WorkloadInfo(owner_kind="StatefulSet"), NOTEBOOK, WorkClass("interactive", "program")),
        (POD, WorkloadInfo(owner_kind="StatefulSet"), LISTENS, WorkClass("service", "socket")),
        (JOB, WorkloadInfo(slurm_step="interactive"), HostSignals(), WorkClass("interactive", "scheduler")),
        (JOB, WorkloadInfo(slurm_step="0"), NOTEBOOK, WorkClass("interactive", "program")),
        (JOB, WorkloadInfo(slurm_step="0"), HostSignals(), WorkClass("batch", "scheduler")),
        (JOB, WorkloadInfo(), RANKS_OF_SERVER, WorkClass("service", "program")),
        (JOB, WorkloadInfo(), OFFLINE, WorkClass("batch", "scheduler")),
        (BARE, WorkloadInfo(), SERVER, WorkClass("service", "program")),
        (BARE, WorkloadInfo(), HostSignals(), WorkClass()),
    ],
)
def test_facts_by_their_weight(owner: Owner, info: WorkloadInfo, host: HostSignals, told: WorkClass) -> None:
    assert classify(owner, info, host) == told


def test_every_kind_that_the_api_knows_is_of_a_class_or_says_nothing_on_purpose() -> None:
    """StatefulSets, RayClusters and Grove's kinds are notebooks, servers and ranks alike."""
    kinds = {kind for each in KINDS.values() for kind in each}
    told = {kind: classify(POD, WorkloadInfo(owner_kind=kind), HostSignals()).source for kind in kinds}

    assert {kind for kind, source in told.items() if source != "scheduler"} == {
        *("StatefulSet", "RayCluster"),
        *KINDS["grove.io"],
    }


def test_the_option_goes_before_what_is_seen() -> None:
    rules = parse_rules("namespace=ml:batch, partition=debug*:interactive")

    assert rules == (ClassRule("namespace", "ml", "batch"), ClassRule("partition", "debug*", "interactive"))
    assert classify(POD, WorkloadInfo(owner_kind="ReplicaSet"), LISTENS, rules) == ("batch", "option")
    assert classify(JOB, WorkloadInfo(), HostSignals(), rules) == ("interactive", "option")


@pytest.mark.parametrize("text", ["namespace=ml", "color=red:batch", "namespace=ml:idle", "=x:batch", "ml:batch"])
def test_an_entry_that_says_nothing_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match="FIELD=PATTERN:CLASS"):
        parse_rules(text)


def test_a_workload_is_judged_again_once_more_is_known_of_it() -> None:
    classes = WorkClasses()

    assert classes.of({BARE: WorkloadInfo()}, {}) == {BARE: WorkClass()}
    assert classes.of({BARE: WorkloadInfo()}, {BARE: LISTENS}) == {BARE: ("service", "socket")}
    assert classes.of({}, {}) == {}


def test_what_a_pod_says_of_itself_goes_with_its_owner() -> None:
    pod = Pod(
        "ml",
        "web",
        "p",
        containers={"c" * 64: ("main", "registry/web:1")},
        requested_class="service",
        restarts={"main": 3},
    )
    info = pod_info(pod, "p", "main", "", None)

    assert (info.requested_class, info.image, info.restarts) == ("service", "registry/web:1", 3)
    assert classify(POD, info, HostSignals()) == WorkClass("service", "label")
    assert pod_info(pod, "p", "sidecar", "", None).image == ""
