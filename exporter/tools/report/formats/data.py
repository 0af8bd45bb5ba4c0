"""JSON with every number as it is, and the one line for Slurm's AdminComment."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from exporter.tools.report import words
from exporter.tools.report.definitions import held, lost, utilization
from exporter.tools.report.layout_job import model_flops
from exporter.tools.report.model import Digest, JobReport, worst

_LONGEST = 240
"""Characters of the short form; sacct shows it whole, and slurmdbd keeps it in a text column."""


def to_json(report: JobReport | Digest, also: Mapping[str, Any]) -> str:
    """The report's fields and derived numbers, and what another source reports of the same job."""
    content = {**dataclasses.asdict(report), **also}
    if isinstance(report, JobReport):
        content |= {
            "gpus": report.gpus,
            "gpu_hours": held(report.hours),
            "gpu_hours_used": report.used_hours,
            "gpu_hours_wasted": lost(report.hours),
            "utilization": utilization(report.hours),
            "energy_joules": report.energy_joules,
            "cost_wasted": report.cost_wasted,
            "throughput": {name: dataclasses.asdict(each) for name, each in report.throughput.items()},
            "to_end": dataclasses.asdict(report.to_end) if report.to_end else None,
        }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def short(report: JobReport | Digest) -> str:
    """`GPU 43 % used; 8 GPUs 2.1 h; wasted 9.6 h, most on Waits for storage; memory 61 of 80 GiB; 12.4 kWh`."""
    if isinstance(report, Digest):
        return f"GPU: held {words.hours(report.held)}; wasted {words.hours(report.wasted)}\n"
    cause = worst(report.hours)
    parts = [
        f"GPU {words.percent(utilization(report.hours))} used" + model_flops(report.progress),
        f"{words.gpus(report.gpus)} {words.span(report.span.seconds)}",
        f"wasted {words.hours(lost(report.hours))}" + (f", most on {words.title(cause)}" if cause else ""),
    ]
    sizes = [(d.memory_peak_bytes, d.memory_total_bytes) for d in report.devices]
    known = [(peak, size) for peak, size in sizes if peak is not None and size]
    if known:
        peak, size = max(known, key=lambda pair: pair[0] / pair[1])
        parts.append(f"memory {words.gib(peak)} of {words.gib(size)}")
    if report.energy_joules is not None:
        parts.append(words.energy(report.energy_joules))
    return "; ".join(parts)[:_LONGEST] + "\n"
