"""Recording rules, on a small cluster: what they say of nodes, models, owners and the whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.contract.rules.case import JOB, OWNER
from tests.contract.rules.promtool import RULES, complaint
from tests.contract.rules.recorded import check

A = 'cluster="c1",job="gpu-exporter",node="n1",instance="n1:9836"'
B = 'cluster="c1",job="gpu-exporter",node="n2",instance="n2:9836"'
A0, A1 = f'{A},gpu="0",uuid="GPU-a0"', f'{A},gpu="1",uuid="GPU-a1"'
B0 = f'{B},gpu="0",uuid="GPU-b0"'

C = 'cluster="c2",job="gpu-exporter",node="n3",instance="n3:9836"'
C0, C1 = f'{C},gpu="0",uuid="GPU-c0"', f'{C},gpu="1",uuid="GPU-c1"'

OTHER = 'kind="pod",workload_namespace="quiet",workload_pod="train-1",workload="quiet/train-1"'

SERIES = {
    # a0 is busy for ml/train-0, a1 waits for it, b0 is free; b0 is of another model; slurm:77 holds nothing any more.
    f"gpu_up{{{A0}}}": "1x30",
    f"gpu_up{{{A1}}}": "1x30",
    f"gpu_up{{{B0}}}": "1x30",
    f'gpu_info{{{A0},model="H100"}}': "1x30",
    f'gpu_info{{{A1},model="H100"}}': "1x30",
    f'gpu_info{{{B0},model="A100"}}': "1x30",
    f"gpu_busy_seconds_total{{{A0}}}": "0+60x30",
    f"gpu_busy_seconds_total{{{A1}}}": "0+15x30",
    f"gpu_busy_seconds_total{{{B0}}}": "0x30",
    f'gpu_state_seconds_total{{{A0},state="computing"}}': "0+60x30",
    f'gpu_state_seconds_total{{{A1},state="computing"}}': "0+15x30",
    f'gpu_state_seconds_total{{{A1},state="wait_cpu"}}': "0+45x30",
    f'gpu_state_seconds_total{{{B0},state="free"}}': "0+60x30",
    f"gpu_memory_used_bytes{{{A0}}}": "60x30",
    f"gpu_memory_used_bytes{{{A1}}}": "30x30",
    f"gpu_memory_used_bytes{{{B0}}}": "0x30",
    f"gpu_power_watts{{{A0}}}": "600x30",
    f"gpu_power_watts{{{A1}}}": "200x30",
    f"gpu_power_watts{{{B0}}}": "50x30",
    f"gpu_energy_joules_total{{{A0}}}": "0+36000x30",
    f'gpu_throttled_seconds_total{{{A0},reason="sw_thermal"}}': "0+30x30",
    f'gpu_throttled_seconds_total{{{A0},reason="hw_thermal"}}': "0+12x30",
    f'gpu_throttled_seconds_total{{{A1},reason="sw_thermal"}}': "0x30",
    f"gpu_allocation_ratio{{{A0},{OWNER}}}": "1x30",
    f"gpu_allocation_ratio{{{A1},{OWNER}}}": "1x30",
    f"gpu_workload_allocated_gpus{{{A},{OWNER}}}": "2x30",
    f"gpu_workload_allocated_gpus{{{B},{JOB}}}": "0x30",
    f'gpu_workload_gpu_seconds_total{{{A},{OWNER},state="computing"}}': "0+75x30",
    f'gpu_workload_gpu_seconds_total{{{A},{OWNER},state="wait_cpu"}}': "0+45x30",
    f'gpu_workload_gpu_seconds_total{{{B},{JOB},state="allocated_idle"}}': "900x30",
    f"gpu_workload_memory_bytes{{{A},{OWNER}}}": "90x30",
    f"gpu_workload_energy_joules_total{{{A},{OWNER}}}": "0+48000x30",
    # c0 does not answer, its counters stand still; c1 is busy for ml/train-1.
    f"gpu_up{{{C0}}}": "0x30",
    f"gpu_up{{{C1}}}": "1x30",
    f'gpu_info{{{C0},model="H100"}}': "1x30",
    f'gpu_info{{{C1},model="H100"}}': "1x30",
    f"gpu_busy_seconds_total{{{C0}}}": "900x30",
    f"gpu_busy_seconds_total{{{C1}}}": "0+60x30",
    f'gpu_state_seconds_total{{{C0},state="computing"}}': "900x30",
    f'gpu_state_seconds_total{{{C0},state="unobserved"}}': "0+60x30",
    f'gpu_state_seconds_total{{{C1},state="computing"}}': "0+60x30",
    f'gpu_throttled_seconds_total{{{C0},reason="sw_thermal"}}': "500x30",
    f'gpu_throttled_seconds_total{{{C1},reason="sw_thermal"}}': "0+30x30",
    f"gpu_power_watts{{{C1}}}": "600x30",
    f"gpu_allocation_ratio{{{C0},{OTHER}}}": "1x30",
    f"gpu_allocation_ratio{{{C1},{OTHER}}}": "1x30",
    f"gpu_workload_allocated_gpus{{{C},{OTHER}}}": "2x30",
    f'gpu_workload_gpu_seconds_total{{{C},{OTHER},state="computing"}}': "0+60x30",
    f'gpu_workload_gpu_seconds_total{{{C},{OTHER},state="unobserved"}}': "0+60x30",
    f'gpu_workload_info{{{C},{OTHER},class="service"}}': "1x30",
    f'gpu_nvlink_errors_total{{{A0},type="replay"}}': "0+3x30",
    f'gpu_nvlink_errors_total{{{C1},type="replay"}}': "0+3x30",
    f'gpu_nvlink_errors_total{{{C1},type="crc"}}': "7+3x30",
    f'gpu_nvlink_errors_total{{{B0},type="replay"}}': "7x30",
    f"gpu_pcie_replays_total{{{C1}}}": "0+6x30",
    f"gpu_pcie_replays_total{{{B0}}}": "5x30",
}
LOST = 'fault="lost",evidence="not shown by the driver",action="restart"'
SERIES |= {
    # c0 as well; b1 was lost before its exporter started.
    f"gpu_fault_timestamp_seconds{{{C0},{LOST}}}": "1x30",
    f'gpu_fault_timestamp_seconds{{{B},gpu="1",uuid="GPU-b1",{LOST}}}': "1x30",
}
SERIES |= {f'gpu_exporter_build_info{{{node},version="1"}}': "1x30" for node in (A, B, C)}
SERIES |= {
    # Two targets scrape the exporter of n3.
    name.replace('job="gpu-exporter"', 'job="again",endpoint="metrics"'): values
    for name, values in SERIES.items()
    if 'node="n3"' in name
}

N1, N2 = 'cluster="c1", instance="n1:9836", node="n1"', 'cluster="c1", instance="n2:9836", node="n2"'

N3 = 'cluster="c2", instance="n3:9836", node="n3"'
OWNED = 'workload="ml/train-0", kind="pod", workload_namespace="ml", user="ada", account="vision"'
OTHERS = 'workload="quiet/train-1", kind="pod", workload_namespace="quiet"'
WEST, EAST = 'cluster="c1"', 'cluster="c2"'

EXPECTED: dict[str, dict[str, float]] = {
    "node:gpu_exporter_copies:ratio": {N1: 1, N2: 1, N3: 2},
    "cluster:gpu_exporters:count": {WEST: 2, EAST: 1},
    "node:gpu_up:count": {N1: 2, N2: 2, N3: 2},
    "node:gpu_up:sum": {N1: 2, N2: 1, N3: 1},
    "node:gpu_workload_allocated_gpus:sum": {N1: 2, N2: 0, N3: 2},
    "node:gpu_free:sum": {N1: 0, N2: 1, N3: 0},
    "node:gpu_utilization:ratio_rate5m": {N1: 0.625, N2: 0, N3: 1},
    "node:gpu_thermal_throttle:ratio_rate5m": {N1: 0.25, N3: 0.5},
    "node:gpu_waste:rate5m": {N1: 0.75, N2: 0, N3: 0},
    "cluster:gpu_up:count": {WEST: 4, EAST: 2},
    "cluster:gpu_workload_allocated_gpus:sum": {WEST: 2, EAST: 2},
    "cluster:gpu_free:sum": {WEST: 1, EAST: 0},
    "cluster:gpu_busy_seconds:rate5m": {WEST: 1.25, EAST: 1},
    "cluster:gpu_utilization:ratio_rate5m": {WEST: 1.25 / 3, EAST: 1},
    "cluster:gpu_power_watts:sum": {WEST: 850, EAST: 600},
    "cluster_state:gpu_state_seconds:rate5m": {
        'cluster="c1", state="computing"': 1.25,
        'cluster="c1", state="wait_cpu"': 0.75,
        'cluster="c1", state="free"': 1,
        'cluster="c2", state="computing"': 1,
        'cluster="c2", state="unobserved"': 1,
    },
    "cluster_reason:gpu_throttled_seconds:rate5m": {
        'cluster="c1", reason="sw_thermal"': 0.5,
        'cluster="c1", reason="hw_thermal"': 0.2,
        'cluster="c2", reason="sw_thermal"': 0.5,
    },
    "model:gpu_up:count": {f'{WEST}, model="H100"': 2, f'{WEST}, model="A100"': 1, f'{EAST}, model="H100"': 2},
    "model:gpu_allocation_ratio:sum": {f'{WEST}, model="H100"': 2, f'{EAST}, model="H100"': 2},
    "model:gpu_memory_used_bytes:sum": {f'{WEST}, model="H100"': 90, f'{WEST}, model="A100"': 0},
    "model:gpu_utilization:ratio_rate5m": {
        f'{WEST}, model="H100"': 0.625,
        f'{WEST}, model="A100"': 0,
        f'{EAST}, model="H100"': 1,
    },
    "model:gpu_waste:rate5m": {f'{WEST}, model="H100"': 0.75, f'{WEST}, model="A100"': 0, f'{EAST}, model="H100"': 0},
    "workload:gpu_workload_allocated_gpus:sum": {
        f"{WEST}, {OWNED}": 2,
        f"{WEST}, {JOB.replace(',', ', ')}": 0,
        f"{EAST}, {OTHERS}": 2,
    },
    "workload:gpu_utilization:ratio_rate5m": {f"{WEST}, {OWNED}": 0.625, f"{EAST}, {OTHERS}": 1},
    "workload:gpu_waste:rate5m": {f"{WEST}, {OWNED}": 0.75, f"{EAST}, {OTHERS}": 0},
    "workload:gpu_workload_allocated:rate5m": {f"{WEST}, {OWNED}": 2, f"{EAST}, {OTHERS}": 2},
    "workload:gpu_workload_observed:rate5m": {f"{WEST}, {OWNED}": 2, f"{EAST}, {OTHERS}": 1},
    "workload:gpu_workload_busy:rate5m": {f"{WEST}, {OWNED}": 1.25, f"{EAST}, {OTHERS}": 1},
    "workload:gpu_workload_good:rate5m": {f"{WEST}, {OWNED}": 1.4, f"{EAST}, {OTHERS}": 0.35},
    "workload:gpu_workload_energy_joules:rate5m": {f"{WEST}, {OWNED}": 800},
    "workload:gpu_workload_memory_bytes:sum": {f"{WEST}, {OWNED}": 90},
    "gpu:gpu_nvlink_errors:rate5m": {
        'cluster="c1", gpu="0", instance="n1:9836"': 0.05,
        'cluster="c2", gpu="1", instance="n3:9836"': 0.1,
    },
    "gpu:gpu_pcie_replays:rate5m": {'cluster="c2", gpu="1", instance="n3:9836"': 0.1},
    "workload:gpu_utilization_good:ratio": {'cluster="c2", workload="quiet/train-1"': 0.35},
    # 16 minutes at 0.75 GPUs, and four in which the five minutes of the rate were not full yet.
    "cluster:gpu_waste_hours:sum1d": {WEST: 0.225, EAST: 0},
    "workload:gpu_waste_hours:topk1h": {f'{WEST}, workload="ml/train-0"': 0.225},
}


def _samples(record: str, wanted: dict[str, float]) -> list[dict[str, Any]]:
    return [{"labels": f"{record}{{{labels}}}", "value": value} for labels, value in wanted.items()]


def test_recording_rules_say_what_the_small_cluster_does(tmp_path: Path) -> None:
    rules = RULES / "gpu-recording.yaml"
    document = {
        "rule_files": [str(rules)],
        "evaluation_interval": "1m",
        # Otherwise promtool takes the groups as its map gives them, and the hours of waste may miss the last minute.
        "group_eval_order": [group["name"] for group in yaml.safe_load(rules.read_text())["groups"]],
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in SERIES.items()],
                "promql_expr_test": [
                    {"expr": record, "eval_time": "20m", "exp_samples": _samples(record, wanted)}
                    for record, wanted in EXPECTED.items()
                ],
            }
        ],
    }

    assert complaint(document, tmp_path) == ""


def test_targets_that_are_exporters_are_told_from_others_also_while_they_are_down(tmp_path: Path) -> None:
    alike = 'cluster="c1", instance="n1:9835", job="nvidia-gpu-exporter"'
    mixed = 'cluster="c1", instance="n1:80", job="kubernetes-pods"'
    ours = mixed.replace("80", "9836")
    never = 'cluster="c1", instance="n9:9836", job="hosts"'
    one = never.replace("n9", "n1")
    series = {
        f"up{{{alike}}}": "1x8 0x12",
        f"up{{{mixed}}}": "1x8 0x12",
        f"up{{{mixed.replace('n1', 'n2')}}}": "0x20",
        f"up{{{ours}}}": "1x8 0x12",
        f"gpu_exporter_build_info{{{ours}}}": "1x8 stale",
        f"up{{{never}}}": "0x20",
        f"up{{{one}}}": "1x20",
        f'gpu_up{{{one},gpu="0"}}': "1x20",
    }
    recorded = {"target:gpu_exporter:last": {ours: 1, one: 1, never: 0}, "target:gpu_exporter_other:last": {mixed: 1}}

    check(tmp_path, ["gpu-target"], series, recorded)


NOW = ["gpu-device", "gpu-node", "gpu-cluster", "gpu-now", "gpu-capacity"]
SUPPLY = ("allocated", "reclaimable", "unhealthy", "out of service", "no CPU or memory", "fragmented", "free")


def _supply(**gpus: int) -> dict[str, float]:
    return {f'{WEST}, supply="{kind}"': gpus.get(kind, 0) for kind in SUPPLY}


def _gpu(target: str, number: int, up: int = 1) -> dict[str, str]:
    return {f'gpu_up{{{target},gpu="{number}",uuid="GPU-{number}"}}': f"{up}x30"}


def test_exporter_is_one_where_one_of_its_targets_has_no_label_node(tmp_path: Path) -> None:
    series: dict[str, str] = {}
    for target in (A, 'cluster="c1",job="by-annotation",instance="n1:9836"'):
        series |= _gpu(target, 0) | {
            f"gpu_exporter_build_info{{{target}}}": "1x30",
            f'gpu_power_watts{{{target},gpu="0",uuid="GPU-0"}}': "100x30",
            f'gpu_workload_allocated_gpus{{{target},workload="w"}}': "1x30",
            f'gpu_throttled_seconds_total{{{target},gpu="0",uuid="GPU-0",reason="hw_thermal"}}': "0+6x30",
            f'gpu_state_seconds_total{{{target},gpu="0",uuid="GPU-0",state="computing"}}': "0+60x30",
        }
    recorded = {
        "node:gpu_exporter_copies:ratio": {N1: 2},
        "node:gpu_up:count": {N1: 1},
        "cluster:gpu_up:count": {WEST: 1},
        "cluster:gpu_power_watts:sum": {WEST: 100},
        "cluster:gpu_workload_allocated_gpus:sum": {WEST: 1},
        "cluster_reason:gpu_throttled_seconds:rate5m": {f'{WEST}, reason="hw_thermal"': 0.1},
        "cluster_state:gpu_state_seconds:rate5m": {f'{WEST}, state="computing"': 1},
    }

    check(tmp_path, NOW, series, recorded)


def test_node_all_of_whose_gpus_were_lost_before_its_exporter_started_has_none_that_respond(tmp_path: Path) -> None:
    lost = {f'gpu_fault_timestamp_seconds{{{B},gpu="{gpu}",uuid="GPU-b{gpu}",{LOST}}}': "1x30" for gpu in range(2)}
    series = _gpu(A, 0) | lost | {f"gpu_exporter_build_info{{{node}}}": "1x30" for node in (A, B)}
    recorded = {
        "node:gpu_up:count": {N1: 1, N2: 2},
        "node:gpu_up:sum": {N1: 1, N2: 0},
        "cluster_supply:gpus:sum": _supply(free=1, unhealthy=2),
    }

    check(tmp_path, NOW, series, recorded)


def test_lost_gpu_that_is_allocated_is_unhealthy_alone(tmp_path: Path) -> None:
    """n1 has four GPUs, of which two are lost, and a job with one of each; n2 has two that are free."""
    held = [f'{A},{JOB},gpu="{gpu}",uuid="GPU-{gpu}"' for gpu in (0, 3)]
    series = _gpu(A, 0) | _gpu(A, 1) | _gpu(A, 2, up=0) | _gpu(A, 3, up=0) | _gpu(B, 8) | _gpu(B, 9)
    series |= {f"gpu_exporter_build_info{{{node}}}": "1x30" for node in (A, B)}
    series |= {f"gpu_workload_allocated_gpus{{{A},{JOB}}}": "2x30"}
    series |= {f"gpu_allocation_ratio{{{labels}}}": "1x30" for labels in held}
    recorded = {
        "node:gpu_free:sum": {N1: 1, N2: 2},
        "cluster:gpu_free:sum": {WEST: 3},
        "cluster_supply:gpus:sum": _supply(allocated=1, unhealthy=2, free=3),
    }

    check(tmp_path, NOW, series, recorded)


def test_cluster_with_two_schedulers_counts_what_waits_of_both(tmp_path: Path) -> None:
    """A pod waits for eight GPUs; of Slurm three jobs for as many, and two for one. One GPU of a node is free."""
    pod, service = 'cluster="c1",namespace="ml",pod="p"', 'cluster="c1",job="gpu-accounting"'
    series = _gpu(A, 0) | {
        f"gpu_exporter_build_info{{{A}}}": "1x30",
        f'kube_pod_container_resource_requests{{{pod},container="main",resource="nvidia_com_gpu"}}': "8x30",
        f"kube_pod_status_unschedulable{{{pod}}}": "1x30",
        f'gpu_accounting_waiting_jobs{{{service},size="8"}}': "3x30",
        f'gpu_accounting_waiting_jobs{{{service},size="1"}}': "2x30",
        f"gpu_accounting_waiting_smallest_gpus{{{service}}}": "1x30",
        f'gpu_accounting_waiting_gpus{{{service},reason="capacity"}}': "26x30",
    }
    recorded = {
        "cluster:gpu_pending:sum": {WEST: 34},
        "cluster_size:gpu_pending_jobs:count": {f'{WEST}, size="8"': 4, f'{WEST}, size="1"': 2},
        'cluster_supply:gpus:sum{supply=~"free|fragmented"}': {
            f'{WEST}, supply="free"': 1,
            f'{WEST}, supply="fragmented"': 0,
        },
    }

    check(tmp_path, NOW, series, recorded)
