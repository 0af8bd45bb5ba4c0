"""What a node's object in Kubernetes says of the GPUs it should have, and of its maintenance."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from exporter.attribution.background_source import BackgroundSource, SourceError
from exporter.attribution.kubernetes.api_server import ApiServer, NodeObject, node_of, read_node
from exporter.faults.watch import FaultTracker, FaultWatchConfig

WHOLE = {"nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
SLICED = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.product": "NVIDIA-A10-SHARED"}
MIG = {"nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}


def node(capacity: object, labels: Mapping[str, str], **spec: object) -> dict[str, Any]:
    return {"metadata": {"labels": labels}, "spec": spec, "status": {"capacity": {"nvidia.com/gpu": capacity}}}


@pytest.mark.parametrize(
    ("capacity", "labels", "gpus"),
    [
        ("8", WHOLE, 8),
        ("32", SLICED, 8),
        ("7", MIG, None),
        ("8", {}, None),  # nobody says whether these are GPUs
        ("0", WHOLE, None),
        ("9", SLICED, None),
        # the device plugin slices the GPU in twelve, and the labels were made without its configuration
        ("12", {**WHOLE, "nvidia.com/gpu.count": "1"}, None),
        ("8", {**WHOLE, "nvidia.com/gpu.count": "8"}, 8),
        ("32", {**SLICED, "nvidia.com/gpu.count": "8"}, 8),
        # one of eight is lost: the labels count what the driver shows now
        ("8", {**WHOLE, "nvidia.com/gpu.count": "7"}, 8),
        ("1000000", WHOLE, None),
        (8, WHOLE, None),
    ],
)
def test_capacity_counts_gpus_only_where_the_labels_say_so(
    capacity: object, labels: Mapping[str, str], gpus: int | None
) -> None:
    assert node_of(node(capacity, labels)).gpus == gpus


@pytest.mark.parametrize(
    ("spec", "maintenance"),
    [
        ({}, False),
        ({"unschedulable": True}, True),
        ({"unschedulable": "true"}, False),
        ({"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}, False),
        ({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}, False),
        ({"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}, True),
        ({"taints": [{"key": "example.org/maintenance"}]}, True),
        ({"taints": "maintenance"}, False),
    ],
)
def test_cordon_and_taints_of_maintenance_are_maintenance(spec: dict[str, object], maintenance: object) -> None:
    assert node_of(node("8", WHOLE, **spec)).maintenance is maintenance


@pytest.mark.parametrize(("labels", "pool"), [({"pool": "spot"}, "spot"), ({}, ""), ({"pool": 7}, "")])
def test_pool_of_node_is_its_label(labels: Mapping[str, object], pool: str) -> None:
    assert node_of(node("8", {**WHOLE, **labels})).pool == pool


class Answers(ApiServer):
    def lines(self, path: str, parameters: Mapping[str, str], *, stream: bool) -> Iterator[bytes]:
        assert (path, parameters, stream) == ("/api/v1/nodes/n%2F1", {}, False)
        yield json.dumps(node("8", WHOLE, unschedulable=True)).encode()


def test_it_is_asked_for_by_its_name_and_shown_with_its_source() -> None:
    source = BackgroundSource(
        lambda: read_node(Answers("http://api"), "n/1"), NodeObject(), name="node", interval=lambda _: 60.0
    )
    watch = FaultTracker(FaultWatchConfig(kubernetes=source))
    watch.observe(0.0, 0.0, (), (), driver=True)
    before = watch.status
    source.ask_once()
    watch.observe(100.0, 100.0, (), (), driver=True)

    assert (dict(before.expected), before.maintenance) == ({}, ())
    assert (dict(watch.status.expected), watch.status.maintenance) == ({"kubernetes": 8}, ("kubernetes",))


def test_api_server_that_stops_to_answer_leaves_what_it_said() -> None:
    answers: list[NodeObject] = [NodeObject(8)]

    def ask() -> NodeObject:
        if not answers:
            raise SourceError("HTTP 403")
        return answers.pop()

    source = BackgroundSource(ask, NodeObject(), name="node", interval=lambda _: 60.0)
    source.ask_once()
    source.ask_once()

    assert (source.answer.value, source.answer.success) == (NodeObject(8), False)


def test_refusal_is_told_once_and_shown_until_it_answers(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[NodeObject | None] = [None, None, NodeObject(8)]

    def ask() -> NodeObject:
        answer = answers.pop(0)
        if answer is None:
            raise SourceError("API server: nodes is forbidden (HTTP 403)")
        return answer

    source = BackgroundSource(ask, NodeObject(), name="node", interval=lambda _: 60.0)
    watch = FaultTracker(FaultWatchConfig(kubernetes=source))
    shown: list[dict[str, bool]] = []
    with caplog.at_level("INFO", "exporter.faults.watch"):
        for turn in range(4):
            watch.observe(100.0 * turn, 100.0 * turn, (), (), driver=True)
            shown.append(dict(watch.status.sources))
            if answers:
                source.ask_once()

    assert shown == [{}, {"kubernetes": False}, {"kubernetes": False}, {"kubernetes": True}]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "nodes is forbidden (HTTP 403)" in caplog.text


def test_source_that_never_answers_is_shown_as_failing() -> None:
    times = iter((0.0, 0.0))
    source = BackgroundSource(NodeObject, NodeObject(), name="node", interval=lambda _: 60.0, clock=lambda: next(times))
    watch = FaultTracker(FaultWatchConfig(kubernetes=source))
    watch.observe(10.0, 10.0, (), (), driver=True)
    young = dict(watch.status.sources)
    watch.observe(20.0, 20.0, (), (), driver=True)

    assert (young, dict(watch.status.sources)) == ({}, {"kubernetes": False})
