"""GPUs of nodes that report nothing stay in the counts, until something says that the node was taken away."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.contract.rules.recorded import check

_GROUPS = ("gpu-target", "gpu-node", "gpu-now")
_UNREACHABLE = "node:gpu_unreachable:count"
_UP, _FAILS, _LEAVES = "1x20", "1x8 0x12", "1x8 stale"

Series = Mapping[str, str]


def reporting(node: str, up: str, address: str = "", served: str = "", machine: str = "", more: str = "") -> Series:
    """Return the target of a node of four GPUs and what it serves while it is up. The GPUs are those of a machine."""
    named = f'node="{node}",' if node else ""
    target = f'cluster="c1",job="gpu-exporter",{named}instance="{address or node}:9836"{more}'
    served = served or up.replace(" 0x12", " stale")
    gpus = {f'gpu_up{{{target},gpu="{gpu}",uuid="{machine or node or address}-{gpu}"}}': served for gpu in range(4)}
    return {f"up{{{target}}}": up, f"gpu_exporter_build_info{{{target}}}": served, **gpus}


def of_node(node: str, address: str = "") -> str:
    named = f', node="{node}"' if node else ""
    return f'cluster="c1", instance="{address or node}:9836"{named}'


def kubernetes(nodes: str, values: str) -> Series:
    return {f'kube_node_info{{cluster="c1",node="{node}"}}': values for node in nodes.split()}


@pytest.mark.parametrize("silent", [0, 1, 10, 20])
def test_sum_of_reachable_and_unreachable_gpus_stays_what_it_was(silent: int, tmp_path: Path) -> None:
    series = {
        name: values
        for node in range(20)
        for name, values in reporting(f"n{node}", _FAILS if node < silent else _UP).items()
    }
    every = f"sum({_UNREACHABLE}) or vector(0)"
    total = f"(({every}) + (sum(node:gpu_up:count) or vector(0)))"

    check(tmp_path, _GROUPS, series, {f"({every})": {"": 4 * silent}, total: {"": 80}})


@pytest.mark.parametrize(
    ("series", "unreachable"),
    [
        pytest.param(reporting("n1", _LEAVES), {of_node("n1"): 4}, id="discovery dropped it"),
        pytest.param(reporting("n1", "1x4 0x4 1x12", served="1x4 stale _x3 1x12"), {}, id="it is back"),
        pytest.param(
            {**reporting("n1", _LEAVES, "10.0.0.1"), **reporting("n1", "_x9 1x12", "10.0.0.2")},
            {},
            id="its pod was replaced",
        ),
        pytest.param(
            {**reporting("n1", _FAILS), **reporting("n2", _UP), **kubernetes("n1 n2", _UP)},
            {of_node("n1"): 4},
            id="it is in Kubernetes",
        ),
        pytest.param(
            {**reporting("n1", _FAILS), **kubernetes("n1", _LEAVES), **kubernetes("cpu", _UP)},
            {},
            id="it was removed from Kubernetes",
        ),
        pytest.param(
            {**reporting("n1", _FAILS), **reporting("n2", _UP), **kubernetes("n2", _UP)},
            {of_node("n1"): 4},
            id="it never was in Kubernetes, others are",
        ),
        pytest.param(
            {
                **reporting("n1", _LEAVES),
                'up{cluster="c1",job="slurm-powered-down",node="n1",instance="n1"}': "_x8 1x12",
            },
            {},
            id="Slurm powered it down",
        ),
        pytest.param(
            {**reporting("n1", _FAILS), 'gpu_node_maintenance{cluster="c1",node="n1",instance="n1:9836"}': _LEAVES},
            {},
            id="it is in maintenance",
        ),
        pytest.param(
            {**reporting("old", _FAILS, machine="m"), **reporting("new", "_x9 1x12", machine="m")},
            {},
            id="another name has its GPUs",
        ),
        pytest.param(
            {**reporting("n1", _FAILS), 'kube_node_spec_unschedulable{cluster="c1",node="n1"}': _UP},
            {},
            id="it is cordoned in Kubernetes",
        ),
        pytest.param(
            {
                **reporting("n1", _LEAVES, more=',slurm_partition="gpu"'),
                **reporting("n2", _UP, more=',slurm_partition="gpu"'),
            },
            {},
            id="it was removed from Slurm",
        ),
        pytest.param(
            {
                **reporting("n1", _FAILS, more=',slurm_partition="gpu"'),
                **reporting("n2", _UP, more=',slurm_partition="gpu"'),
            },
            {of_node("n1"): 4},
            id="it is in Slurm",
        ),
        pytest.param(
            {'up{cluster="c1",job="gpu-exporter",node="n1",instance="n1:9836"}': "_x9 0x12", **reporting("n2", _UP)},
            {},
            id="it never reported",
        ),
        pytest.param(
            {**reporting("n1", _FAILS), **{k.replace('"c1"', '"c2"'): v for k, v in reporting("n1", _UP).items()}},
            {of_node("n1"): 4},
            id="another cluster has a node of that name",
        ),
        pytest.param(
            {**reporting("n1", _FAILS, more=',replica="a"'), **reporting("n1", _FAILS, more=',replica="b"')},
            {of_node("n1"): 4},
            id="two replicas of Prometheus",
        ),
        pytest.param(reporting("", _FAILS, "10.0.0.1"), {of_node("", "10.0.0.1"): 4}, id="without a label node, down"),
        pytest.param(
            {
                **reporting("", _LEAVES, "10.0.0.1", machine="m"),
                **reporting("", "_x9 1x12", "10.0.0.2", machine="m"),
            },
            {},
            id="without a label node, its pod was replaced",
        ),
    ],
)
def test_node_counts_as_unreachable(series: Series, unreachable: Mapping[str, float], tmp_path: Path) -> None:
    check(tmp_path, _GROUPS, series, {_UNREACHABLE: unreachable})


def test_node_that_had_two_addresses_counts_once(tmp_path: Path) -> None:
    series = {
        **reporting("n1", "1x4 stale", "10.0.0.1"),
        **reporting("n1", "_x5 1x3 0x12", "10.0.0.2", "_x5 1x3 stale"),
    }

    check(tmp_path, _GROUPS, series, {f"sum({_UNREACHABLE})": {"": 4}})
