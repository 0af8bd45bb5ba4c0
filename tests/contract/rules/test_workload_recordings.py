"""What recording rules make of many pods: one series for the workload, and its starts counted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from deploy.prometheus.generate import RULES
from tests.contract.rules.promtool import complaint
from tests.contract.rules.recorded import check

_RUN = 'cluster="c1",job="gpu-exporter"'
_SERVICE = 'workload="serving/chat",kind="pod",workload_namespace="serving",workload_container="main"'
_TRAINING = 'workload="ml/llm",kind="pod",workload_namespace="ml",workload_container="main"'
_JOB = 'workload="slurm:9",kind="slurm",slurm_job="9",user="ada"'


def _node(number: int) -> str:
    return f'{_RUN},node="n{number}",instance="n{number}:9836"'


def _replicas(count: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for number in range(count):
        own = f'{_node(number)},{_SERVICE},workload_pod="chat-7d9c5b8d4-{number}"'
        found[f"gpu_workload_allocated_gpus{{{own}}}"] = "1x30"
        found[f'gpu_workload_gpu_seconds_total{{{own},state="allocated_unused"}}'] = "0+60x30"
        found[f'gpu_workload_busy_gpu_seconds_total{{{own},gpu="0",uuid="GPU-{number}"}}'] = "0+15x30"
    return found


def _training() -> dict[str, str]:
    """Started three times: at 0, then new pods at 300 s and at 900 s, two each."""
    found: dict[str, str] = {}
    for turn, (begin, end) in enumerate(((0, 4), (5, 14), (15, 30))):
        for rank in range(2):
            own = f'{_node(rank)},{_TRAINING},workload_pod="llm-worker-{rank}-{turn}"'
            before = f"_x{begin - 1} " if begin else ""
            found[f"gpu_workload_start_time_seconds{{{own}}}"] = f"{before}{60 * begin}x{end - begin} stale"
            found[f"gpu_workload_allocated_gpus{{{own}}}"] = f"{before}4x{end - begin} stale"
            found[f"gpu_workload_restarts{{{own}}}"] = f"{before}0x{end - begin} stale"
            straggles = "0+30x30" if rank else "0x30"
            found[f'gpu_workload_straggler_seconds_total{{{own},gpu="0",uuid="GPU-{rank}"}}'] = straggles
    return found


_REQUEUED = {
    f"gpu_workload_restarts{{{_node(1)},{_JOB}}}": "0x9 1x9 2x11",
    f"gpu_workload_start_time_seconds{{{_node(1)},{_JOB}}}": "0x9 600x9 1200x11",
}


def _uneven() -> dict[str, str]:
    """Two GPUs of a job, one busy for a quarter of its time and one for three, scraped by two targets."""
    found: dict[str, str] = {}
    for target in (_node(1), _node(1).replace('job="gpu-exporter"', 'job="again"')):
        for gpu, busy in enumerate((15, 45)):
            device = f'{target},gpu="{gpu}",uuid="GPU-{gpu}"'
            found[f"gpu_allocation_ratio{{{device},{_JOB}}}"] = "1x30"
            for state, seconds in (("computing", busy), ("allocated_idle", 60 - busy), ("unobserved", 30)):
                found[f'gpu_state_seconds_total{{{device},state="{state}"}}'] = f"0+{seconds}x30"
    return found


_CASES: Mapping[str, tuple[Mapping[str, str], Mapping[str, tuple[str, float]]]] = {
    "25 replicas of one service are one row": (
        _replicas(25),
        {
            "workload:gpu_waste:rate5m": (_SERVICE, 25),
            "workload:gpu_workload_allocated_gpus:sum": (_SERVICE, 25),
            "workload:gpu_workload_used:rate5m": (_SERVICE, 6.25),
            "workload:gpu_workload_parts:count": (_SERVICE, 25),
        },
    ),
    "a training run that was started again twice": (
        _training(),
        {
            "workload:gpu_workload_starts:changes1d": (_TRAINING, 2),
            "workload:gpu_workload_allocated_gpus:sum": (_TRAINING, 8),
            "workload:gpu_straggling:ratio_rate5m": (_TRAINING, 0.5),
        },
    ),
    "a job with an imbalance": (
        _uneven(),
        {"workload:gpu_utilization:min": (_JOB, 0.25), "workload:gpu_utilization:max": (_JOB, 0.75)},
    ),
    "a job that moves to another account keeps its first labels, so that no alert begins anew": (
        {
            f'gpu_workload_allocated_gpus{{{_node(1)},workload="w",user="ada",account="{account}"}}': values
            for account, values in (("x", "1x10 stale"), ("y", "_x10 1x20"))
        },
        {"workload:gpu_owner:first": ('workload="w",user="ada",account="x"', 1)},
    ),
    "a job that was requeued twice": (
        _REQUEUED,
        {"workload:gpu_workload_starts:changes1d": (_JOB, 2), "workload:gpu_workload_restarts:max": (_JOB, 2)},
    ),
}


@pytest.mark.parametrize("name", _CASES)
def test_workload_is_one_series_whatever_its_pods(name: str, tmp_path: Path) -> None:
    series, wanted = _CASES[name]
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
                    {"expr": record, "eval_time": "25m", "exp_samples": [_sample(record, labels, value)]}
                    for record, (labels, value) in wanted.items()
                ],
            }
        ],
    }

    assert complaint(document, tmp_path) == ""


def _sample(record: str, owner: str, value: float) -> dict[str, object]:
    labels = owner.replace(',workload_container="main"', "")
    return {"labels": f'{record}{{cluster="c1",{labels}}}', "value": value}


def test_job_that_has_another_name_already_on_one_of_its_nodes_has_one_name(tmp_path: Path) -> None:
    """One job of two names would end the rule for all."""
    series: dict[str, str] = {}
    for node, name in ((1, "old"), (2, "new")):
        series[f"gpu_workload_start_time_seconds{{{_node(node)},{_JOB}}}"] = "600x30"
        series[f'gpu_workload_info{{{_node(node)},{_JOB},job_name="{name}"}}'] = "1x30"
    once = "sum without (job_name) (workload_job_name:gpu_workload_start_time_seconds:max)"

    check(tmp_path, ["gpu-allocated"], series, {once: {'cluster="c1",workload="slurm:9"': 600}})


_SCALED = 'workload="serving/Deployment/chat",kind="pod",workload_namespace="serving"'
_SCALED_NAMES = f'{_SCALED},owner_kind="Deployment",owner_name="chat"'


def _stepping(pods: int) -> dict[str, str]:
    """Pods of one GPU each, scraped every 15 s: idle, busy from 300 s on, idle again from 600 s on; one never runs."""
    found: dict[str, str] = {}
    for number in range(pods):
        own = f'{_node(number)},{_SCALED},workload_pod="chat-7d9c5b8d4-{number}"'
        found[f"gpu_workload_allocated_gpus{{{own}}}"] = "1x80"
        if number < pods - 1:
            used = f'gpu_workload_busy_gpu_seconds_total{{{own},gpu="0",uuid="GPU-{number}"}}'
            found[used] = "0x20 15+15x19 300x40"
    return found


def _beginning() -> dict[str, str]:
    """Two pods of one GPU each that are always busy; of the second the first scrape is at 600 s."""
    found: dict[str, str] = {}
    for number, before in enumerate(("", "_x40 ")):
        own = f'{_node(number)},{_SCALED},workload_pod="chat-7d9c5b8d4-{number}"'
        found[f"gpu_workload_allocated_gpus{{{own}}}"] = f"{before}1x40"
        used = f'gpu_workload_busy_gpu_seconds_total{{{own},gpu="0",uuid="GPU-{number}"}}'
        found[used] = f"{before}15+15x40"
    return found


@pytest.mark.parametrize(
    ("pods", "seconds", "percent"),
    # Of two of three GPUs. A minute's rate after n scrapes of a step is n quarters of it.
    [(1, 300, 0), (3, 300, 0), (3, 345, 50), (3, 600, 67), (3, 645, 17), (3, 675, 0)],
)
def test_utilization_for_autoscalers_follows_a_step_within_a_minute(
    pods: int, seconds: int, percent: int, tmp_path: Path
) -> None:
    assert _scaled_by({**_stepping(pods), **_training()}, seconds, percent, tmp_path) == ""


def test_pod_that_was_scraped_once_is_no_idle_one_for_autoscalers(tmp_path: Path) -> None:
    assert _scaled_by(_beginning(), 600, 100, tmp_path) == ""


def _scaled_by(series: Mapping[str, str], seconds: int, percent: int, folder: Path) -> str:
    expression = "round(100 * workload:gpu_utilization:ratio_rate1m)"
    sample = {"labels": f'{{cluster="c1",{_SCALED_NAMES}}}', "value": percent}
    document = {
        "rule_files": [str((RULES / "gpu-recording.yaml").resolve())],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": [{"series": each, "values": values} for each, values in series.items()],
                "promql_expr_test": [{"expr": expression, "eval_time": f"{seconds}s", "exp_samples": [sample]}],
            }
        ],
    }
    return complaint(document, folder)
