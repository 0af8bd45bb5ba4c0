"""One promtool unit test of one alert: its series, when to look, and whether it must fire."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

SECOND_JOB = "also-gpu-exporter"
EXPORTER_JOBS = ("gpu-exporter", SECOND_JOB)
NODE = 'cluster="c1",job="gpu-exporter",node="n1",instance="n1:9836"'
DEV = f'{NODE},gpu="3",uuid="GPU-3"'
OTHER = f'{NODE},gpu="4",uuid="GPU-4"'
_POD = 'workload_namespace="ml",workload_pod="train-0",workload_container="main"'
OWNER = f'workload="ml/train-0",kind="pod",{_POD},user="ada",account="vision"'
JOB = 'workload="slurm:77",kind="slurm",slurm_job="77",user="bob",account="physics",partition="gpu"'

_LABEL = re.compile(r'(\w+)="([^"]*)"')
_VALUE = re.compile(r"(?<![x\d.])\d+(\.\d+)?")


@dataclass(frozen=True, slots=True)
class Case:
    """`series` maps a series to promtool's notation of its values, one a minute. `at` are the times to look."""

    alert: str
    name: str
    series: Mapping[str, str]
    at: tuple[str, ...]
    fires: bool = False


def fires(alert: str, name: str, at: str, series: Mapping[str, str]) -> Case:
    return Case(alert, name, {**recorded_targets(series), **series}, (at,), fires=True)


def silent(alert: str, name: str, at: str, series: Mapping[str, str]) -> Case:
    return Case(alert, name, {**recorded_targets(series), **series}, tuple(at.split()))


def recorded_targets(series: Mapping[str, str]) -> Mapping[str, str]:
    """Return what is recorded of the exporters among the targets: 1 as long as there is an `up`."""
    found: dict[str, str] = {}
    for name, values in series.items():
        labels = dict(_LABEL.findall(name)) if name.startswith("up{") else {}
        if labels.get("job") in EXPORTER_JOBS:
            own = ",".join(f'{label}="{labels[label]}"' for label in ("cluster", "job", "instance") if label in labels)
            found[f"target:gpu_exporter:last{{{own}}}"] = _VALUE.sub("1", values)
    return found
