"""One promtool unit test of one alert: its series, when to look, and whether it must fire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NODE = 'cluster="c1",job="gpu-exporter",node="n1",instance="n1:9836"'
DEV = f'{NODE},gpu="3",uuid="GPU-3"'
OTHER = f'{NODE},gpu="4",uuid="GPU-4"'
OWNER = 'workload="ml/train-0",kind="pod",namespace="ml",pod="train-0",container="main",user="ada",account="vision"'
JOB = 'workload="slurm:77",kind="slurm",slurm_job="77",user="bob",account="physics",partition="gpu"'


@dataclass(frozen=True, slots=True)
class Case:
    """`series` maps a series to promtool's notation of its values, one a minute. `at` are the times to look."""

    alert: str
    name: str
    series: Mapping[str, str]
    at: tuple[str, ...]
    fires: bool = False


def fires(alert: str, name: str, at: str, series: Mapping[str, str]) -> Case:
    return Case(alert, name, series, (at,), fires=True)


def silent(alert: str, name: str, at: str, series: Mapping[str, str]) -> Case:
    return Case(alert, name, series, tuple(at.split()))
