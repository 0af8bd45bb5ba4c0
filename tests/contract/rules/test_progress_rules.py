"""What programs report, over the nodes of a workload: nothing counted twice, the slowest rank named, MFU, its bound."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exporter.tools.report import progress
from exporter.tools.report.promql import EVERYTHING
from tests.contract.rules.case import JOB, OWNER
from tests.contract.rules.recorded import check

NODE = 'cluster="c1",job="gpu-exporter",node="n{0}",instance="n{0}:9836"'
A, B = NODE.format(1), NODE.format(2)
GPUS = tuple(f'{node},gpu="0",uuid="GPU-{index}"' for index, node in enumerate((A, B)))
PEAK = 1e15
GROUPS = {"gpu-device", "gpu-part", "gpu-allocated", "gpu-owner", "gpu-progress", "gpu-now"}


def steps(node: str, rank: int, fastest: float, median: float, slowest: float) -> dict[str, str]:
    found = {"min": fastest, "median": median, "max": slowest}
    return {
        **{f'gpu_workload_step_duration_seconds{{{node},{JOB},stat="{stat}"}}': f"{v}x30" for stat, v in found.items()},
        f'gpu_workload_slowest_rank_step_seconds{{{node},{JOB},rank="{rank}"}}': f"{slowest}x30",
    }


def device(gpu: str, tensor: float, owner: str) -> dict[str, str]:
    return {
        f'gpu_info{{{gpu},model="H100"}}': "1x30",
        f"gpu_peak_bf16_flops{{{gpu}}}": f"{PEAK}x30",
        f"gpu_allocation_ratio{{{gpu},{owner}}}": "1x30",
        f"gpu_tensor_active_seconds_total{{{gpu}}}": f"0+{60 * tensor}x30",
        f'gpu_clock_hertz{{{gpu},domain="sm"}}': "1e9x30",
        f'gpu_clock_max_hertz{{{gpu},domain="sm"}}': "2e9x30",
    }


SERIES = {
    **steps(A, 3, 0.5, 0.5, 0.6),
    **steps(B, 12, 0.4, 0.6, 2.0),
    **{f"gpu_workload_samples_total{{{node},{JOB}}}": "0+600x30" for node in (A, B)},
    **{f"gpu_workload_steps_total{{{node},{JOB}}}": "0+60x30" for node in (A, B)},
    **{f"gpu_workload_model_flops_total{{{node},{JOB}}}": f"0+{24 * PEAK}x30" for node in (A, B)},
    **device(GPUS[0], 0.9, JOB),
    **device(GPUS[1], 0.9, JOB),
}
TWICE = SERIES | {name.replace('job="gpu-exporter"', 'job="again"'): values for name, values in SERIES.items()}


def of(owner: str, more: str = "") -> str:
    """The whole workload: without pod and container."""
    whole = re.sub(r'workload_(pod|container)="[^"]*",?', "", owner).rstrip(",")
    return f'cluster="c1",{whole}{more}'


def test_workload_of_two_nodes_that_are_scraped_twice(tmp_path: Path) -> None:
    check(
        tmp_path,
        GROUPS,
        TWICE,
        {
            "workload:gpu_workload_samples:rate5m": {of(JOB): 20},
            "workload:gpu_workload_steps:rate5m": {of(JOB): 1},
            "workload_unit:gpu_workload_throughput:rate5m": {of(JOB, ',unit="samples"'): 20},
            "workload:gpu_workload_step_duration_seconds:min": {of(JOB): 0.4},
            "workload:gpu_workload_step_duration_seconds:median": {of(JOB): 0.55},
            "workload:gpu_workload_step_duration_seconds:max": {of(JOB): 2},
            "workload:gpu_workload_slowest_rank_step_seconds:max": {of(JOB, ',instance="n2:9836",rank="12"'): 2},
            "workload:gpu_workload_model_flops_utilization:ratio_rate5m": {of(JOB): 0.4},
            "workload:gpu_workload_model_flops_utilization_bound:ratio_rate5m": {},
        },
    )


def test_bound_is_told_where_nothing_is_reported(tmp_path: Path) -> None:
    check(
        tmp_path,
        GROUPS,
        {**device(GPUS[0], 0.9, OWNER), **device(GPUS[1], 0.3, OWNER)},
        {
            "workload:gpu_workload_model_flops_utilization:ratio_rate5m": {},
            "workload:gpu_workload_model_flops_utilization_bound:ratio_rate5m": {of(OWNER): 0.3},
        },
    )


@pytest.mark.parametrize("window", ["", "10m"])
def test_of_a_group_those_that_report_have_a_utilization_and_the_others_a_bound(window: str, tmp_path: Path) -> None:
    """One job that reports, one pod that does not: the peak of neither is in the number of the other."""
    reports = {f"gpu_workload_model_flops_total{{{A},{JOB}}}": f"0+{24 * PEAK}x30"}
    check(
        tmp_path,
        GROUPS,
        {**reports, **device(GPUS[0], 0.9, JOB), **device(GPUS[1], 0.6, OWNER)},
        {
            f"({progress.reported(EVERYTHING, 'cluster', window)})": {'cluster="c1"': 0.4},
            f"({progress.bound(EVERYTHING, 'cluster', window)})": {'cluster="c1"': 0.3},
        },
    )


def test_pods_of_one_workload_are_one_and_what_it_counts_has_its_unit(tmp_path: Path) -> None:
    """Two pods of a PyTorchJob, of which neither counts samples."""
    second = OWNER.replace(',workload_pod="train-0"', ',workload_pod="train-1"')
    pods = (f"{A},{OWNER}", f"{B},{second}")
    check(
        tmp_path,
        GROUPS,
        {
            **{f"gpu_workload_tokens_total{{{pod}}}": "0+6000x30" for pod in pods},
            **{f"gpu_workload_steps_total{{{pod}}}": "0+60x30" for pod in pods},
            f'gpu_workload_slowest_rank_step_seconds{{{pods[0]},rank="0"}}': "1x30",
            f'gpu_workload_slowest_rank_step_seconds{{{pods[1]},rank="1"}}': "2x30",
        },
        {
            "workload:gpu_workload_tokens:rate5m": {of(OWNER): 200},
            "workload:gpu_workload_steps:rate5m": {of(OWNER): 1},
            "workload_unit:gpu_workload_throughput:rate5m": {of(OWNER, ',unit="tokens"'): 200},
            "workload:gpu_workload_slowest_rank_step_seconds:max": {of(OWNER, ',instance="n2:9836",rank="1"'): 2},
        },
    )
