"""Ranks of a workload on several nodes, compared by recording rules over what their GPUs count."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from deploy.prometheus.generate import RULES
from tests.contract.rules.promtool import complaint

_UNITS = ("busy", "tensor", "dram", "sm", "fp64", "fp32", "fp16", "memory")


class _Rank(NamedTuple):
    """Fractions of the time in which each unit of one GPU was active."""

    busy: float
    tensor: float
    dram: float
    sm: float
    node: int = 1
    workload: str = "slurm:7"
    kind: str = "slurm"
    gpm: bool = True
    memory: float = 0.0


_LATE = _Rank(0.6, 0.30, 0.18, 0.54)
_WAITS = _Rank(1.0, 0.30, 0.18, 0.58, node=2)
_JOB = (_LATE, _WAITS._replace(node=1), _WAITS, _WAITS)


def _metric(unit: str) -> str:
    return {"busy": "gpu_busy_seconds_total", "memory": "gpu_memory_busy_seconds_total"}.get(
        unit, f"gpu_{unit}_active_seconds_total"
    )


def _series(ranks: Sequence[_Rank]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for number, rank in enumerate(ranks):
        at = f'cluster="c1",job="gpu-exporter",node="n{rank.node}",instance="n{rank.node}:9836"'
        device = f'{at},gpu="{number}",uuid="GPU-{number}"'
        owner = f'workload="{rank.workload}",kind="{rank.kind}"'
        found[f"gpu_allocation_ratio{{{device},{owner}}}"] = "1x30"
        for unit in _UNITS if rank.gpm else ("busy", "memory"):
            found[f"{_metric(unit)}{{{device}}}"] = f"0+{60 * getattr(rank, unit, 0.0):g}x30"
    return found


_CASES: Mapping[str, tuple[Sequence[_Rank], Mapping[int, float]]] = {
    "one rank waits for its data": (_JOB, {0: 0.4}),
    "one rank has more work than the others, who wait": (
        (_Rank(1.0, 0.5, 0.3, 0.9), *[_Rank(1.0, 0.47, 0.28, 0.86, node=node) for node in (1, 2, 2)]), {},
    ),
    "all ranks work": ([_Rank(1.0, 0.5, 0.3, 0.9, node=node) for node in (1, 1, 2, 2)], {}),
    "smaller batches on some nodes": (
        (_Rank(1.0, 0.5, 0.3, 0.9), *[_Rank(1.0, 0.31, 0.19, 0.86, node=node) for node in (1, 2, 2)]), {},
    ),
    "independent runs of different models in one job": (
        (_Rank(0.6, 0.3, 0.1, 0.5), _Rank(1.0, 0.1, 0.4, 0.3), _Rank(1.0, 0.05, 0.05, 0.3, node=2)), {},
    ),
    "a job on one node, which its exporter compares": ([each._replace(node=1) for each in _JOB], {}),
    "two processes of one name on two nodes": ([each._replace(kind="process") for each in _JOB], {}),
    "two jobs": ((_LATE, _WAITS._replace(workload="slurm:8")), {}),
    "before Hopper": (
        [each._replace(gpm=False, memory=0.25) for each in _JOB], {0: 0.4},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _CASES)
def test_rank_that_others_wait_for_over_nodes(name: str, tmp_path: Path) -> None:
    ranks, named = _CASES[name]
    assert _said(_series(ranks), [_sample(ranks, number, part) for number, part in named.items()], tmp_path) == ""


def test_ranks_are_compared_where_a_second_target_has_no_label_node(tmp_path: Path) -> None:
    series = _series(_JOB)
    again = {re.sub(r'job="gpu-exporter",node="n\d"', 'job="by-annotation"', name): series[name] for name in series}

    said = _said({**series, **again}, [], tmp_path)
    assert (said.count("gpu="), said.count('gpu="0"'), said.count("4E-01")) == (1, 1, 1), said


def _said(series: Mapping[str, str], samples: Sequence[Mapping[str, object]], folder: Path) -> str:
    """Return promtool's complaint about ranks that others wait for."""
    rules = RULES / "gpu-recording.yaml"
    document = {
        "rule_files": [str(rules.resolve())],
        "evaluation_interval": "1m",
        "group_eval_order": [group["name"] for group in yaml.safe_load(rules.read_text())["groups"]],
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": each, "values": values} for each, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": "round(rank:gpu_straggling:ratio_rate5m, 0.001)",
                        "eval_time": "25m",
                        "exp_samples": samples,
                    }
                ],
            }
        ],
    }

    return complaint(document, folder)


def _sample(ranks: Sequence[_Rank], number: int, value: float) -> dict[str, object]:
    rank = ranks[number]
    at = f'cluster="c1",node="n{rank.node}",instance="n{rank.node}:9836",gpu="{number}",uuid="GPU-{number}"'
    return {"labels": f'{{{at},workload="{rank.workload}"}}', "value": value}
