"""Buy, tune or repair: three sites whose answer is known, through the rules and the dashboard on a real Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.e2e.dashboards.history import Span
from tests.e2e.dashboards.reader import Reader
from tests.e2e.dashboards.tsdb import Archive

pytestmark = pytest.mark.xdist_group("capacity")

END = 1_789_999_200
SPAN = Span(END - 3600, END, 60)
GPUS = 8
"""GPUs of each site, on two nodes."""
PRICE = 3.0 * 730
"""A month of an H100, by the prices of the archive."""


class Site(NamedTuple):
    """A planted site: `wasted` is the idle fraction of its allocated GPUs, and its last `broken` ones are lost."""

    waiting: int
    wasted: float
    broken: int
    allocated: int


def _series(site: str, waiting: int, wasted: float, broken: int, allocated: int) -> Iterator[tuple[str, float, float]]:
    """Yield series with their first value and their growth in a minute. Waiting pods ask for one GPU each."""
    for gpu in range(GPUS):
        node = f"{site}{gpu // 4}"
        target = f'cluster="{site}",job="gpu",node="{node}",instance="{node}:9836"'
        device = f'{target},gpu="{gpu % 4}",uuid="GPU-{node}-{gpu % 4}"'
        lost = gpu >= GPUS - broken
        yield f"gpu_up{{{device}}}", float(not lost), 0
        yield f'gpu_info{{{device},model="NVIDIA H100"}}', 1, 0
        busy = 1 - wasted if gpu < allocated else 0.0
        states = {"computing": busy, "allocated_idle": wasted if gpu < allocated else 0.0}
        states["unobserved" if lost else "free"] = 0.0 if gpu < allocated else 1.0
        for state, part in states.items():
            yield f'gpu_state_seconds_total{{{device},state="{state}"}}', 0, 60 * part
        if gpu % 4 == 0:
            yield f"up{{{target}}}", 1, 0
            yield f'gpu_exporter_build_info{{{target},version="1.0"}}', 1, 0
            here = min(max(allocated - gpu, 0), 4)
            work = f'{target},workload="{node}/train",kind="pod",workload_namespace="nlp",workload_pod="train"'
            yield f"gpu_workload_allocated_gpus{{{work}}}", here, 0
            store = f'{target},store="{node}",since="1780000000",model="NVIDIA H100"'  # owners do not matter here
            yield f"gpu_owner_since_timestamp_seconds{{{store}}}", 1_780_000_000, 0
            yield f'gpu_owner_gpu_seconds_total{{{store},state="free"}}', 0, 60 * GPUS / 2
    for pod in range(waiting):
        waits = f'cluster="{site}",namespace="nlp",pod="waits-{pod}"'
        request = f'{waits},container="main",resource="nvidia_com_gpu",unit="integer"'
        yield f"kube_pod_container_resource_requests{{{request}}}", 1, 0
        yield f"kube_pod_status_unschedulable{{{waits}}}", 1, 0
        yield f"kube_pod_created{{{waits}}}", SPAN.start - 600, 0


SITES = {
    "buy": Site(6, 0.05, 0, 8),
    "tune": Site(3, 0.5, 0, 8),
    "repair": Site(3, 0.0, 3, 5),
    "cordoned": Site(4, 0.0, 0, 4),
    "crowded": Site(4, 0.0, 0, 4),
    "kueue": Site(0, 0.0, 0, 8),
    "silent": Site(0, 0.0, 1, 7),
}
ANSWERS = {"buy": "buy", "tune": "tune", "repair": "repair", "cordoned": "repair", "crowded": "tune", "kueue": "buy"}
_QUEUE = 'cluster="kueue",cluster_queue="gpus"'
FURTHER = {
    # The second node is cordoned.
    'kube_node_spec_unschedulable{cluster="cordoned",node="cordoned1"}': 1,
    # One of its 32 cores is left on the second node. Each waiting pod requests eight.
    'kube_node_status_allocatable{cluster="crowded",node="crowded1",resource="cpu"}': 32,
    'kube_pod_container_resource_requests{cluster="crowded",namespace="nlp",pod="web",container="main",'
    'node="crowded1",resource="cpu"}': 31,
    'kube_pod_status_phase{cluster="crowded",namespace="nlp",pod="web",phase="Running"}': 1,
    **{
        f'kube_pod_container_resource_requests{{cluster="crowded",namespace="nlp",pod="waits-{pod}",container="main",'
        'resource="cpu"}': 8
        for pod in range(4)
    },
    # Three admitted workloads have six GPUs, two wait.
    f'kueue_pending_workloads{{{_QUEUE},status="inadmissible"}}': 2,
    f"kueue_reserving_active_workloads{{{_QUEUE}}}": 3,
    f'kueue_cluster_queue_resource_reservation{{{_QUEUE},flavor="h100",resource="nvidia.com/gpu"}}': 6,
}
"""Series of kube-state-metrics and Kueue beside those of the sites."""
GPUS_BY_ANSWER = {
    # 8 GPUs are busy for 95 %: 0.4 of the 6 GPUs can be reclaimed.
    ("buy", "buy"): 5.6,
    ("buy", "tune"): 0.4,
    ("tune", "tune"): 3.0,
    ("repair", "repair"): 3.0,
    ("cordoned", "repair"): 4.0,
    ("crowded", "tune"): 4.0,
    ("kueue", "buy"): 4.0,
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    archive = Archive(tmp_path_factory.mktemp("capacity"), SPAN)
    text = archive.folder / "sites.om"
    with text.open("w") as out:
        for site, known in SITES.items():
            for name, first, growth in _series(site, *known):
                out.writelines(f"{name} {first + growth * n!r} {at}\n" for n, at in enumerate(SPAN.times))
        for name, value in FURTHER.items():
            out.writelines(f"{name} {value} {at}\n" for at in SPAN.times)
        out.write("# EOF\n")
    archive.add(text)
    archive.evaluate()
    with archive.served() as found:
        yield found


def _shown(url: str, site: str) -> Reader:
    return Reader(url, Span(END - 1800, END, 60), {"cluster": site})


@pytest.mark.parametrize(("site", "answer"), ANSWERS.items())
def test_planted_site_gets_its_answer(url: str, site: str, answer: str) -> None:
    (found,) = _shown(url, site).rows("capacity", "Answer")

    assert found["metric"]["answer"] == answer


def test_site_without_a_scheduler_has_no_answer_and_no_trend(url: str) -> None:
    """Nobody knows what waits there, which is not that nothing waits; and an hour is no trend."""
    reader = _shown(url, "silent")
    (peak,) = reader.rows("capacity", "Demand", "C")

    assert [reader.rows("capacity", title) for title in ("Answer", "Demand in 30 days")] == [[], []]
    assert float(peak["value"][1]) == GPUS - 1


@pytest.mark.parametrize(("site", "kind"), [("cordoned", "out of service"), ("crowded", "no CPU or memory")])
def test_free_gpus_that_no_work_can_have_are_no_free_ones(url: str, site: str, kind: str) -> None:
    rows = _shown(url, site).column("capacity", "Supply", "GPUs")
    supply = {row["metric"]["supply"]: float(row["value"][1]) for row in rows}

    assert (supply[kind], supply["free"]) == (4, 0)


def test_answers_are_in_gpus_and_money(url: str) -> None:
    reader = _shown(url, ".*")
    gpus, costs = (
        {
            (row["metric"]["cluster"], row["metric"]["answer"]): float(row["value"][1])
            for row in reader.column("capacity", "GPUs that work waited for", column)
        }
        for column in ("GPUs", "Cost per month")
    )

    assert gpus == pytest.approx(GPUS_BY_ANSWER, abs=0.01)
    assert costs == pytest.approx({of: count * PRICE for of, count in GPUS_BY_ANSWER.items()}, rel=0.01)


@pytest.mark.parametrize("site", SITES)
def test_every_gpu_is_in_one_kind_of_supply(url: str, site: str) -> None:
    supply = _shown(url, site).column("capacity", "Supply", "GPUs")

    assert sum(float(row["value"][1]) for row in supply) == pytest.approx(GPUS)


def test_demand_has_its_percentiles(url: str) -> None:
    (peak,) = _shown(url, "buy").rows("capacity", "Demand", "C")

    assert float(peak["value"][1]) == 14
