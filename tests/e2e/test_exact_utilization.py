"""Utilization by rate() in a real Prometheus is what the driver was told to have, whatever the scrape interval."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.exporter_process import exporter
from tests.fake_nvml.scenario import uuid
from tests.stack import poll, prometheus

PATTERNS = {
    uuid(0): ("square 5 95 3 0.30", 0.32),
    uuid(1): ("square 0 100 5 0.55", 0.55),
}
"""Alternations faster than any scrape, whole in number between two: what is told, and its mean."""
SCRAPES = {5: 8, 15: 6, 60: 4}
"""How many to wait for, by the seconds between two."""
WINDOWS = {5: 35, 15: 60, 60: 120}
"""Of `rate()`, which is exact over whole patterns: from its first to its last sample there are 15 s or several."""
LATE = 4.0
"""Seconds by which the cycles at both ends may be late: what a scrape counts is as old as the last cycle."""


@pytest.mark.parametrize("intervals", [(5,), pytest.param((15, 60), marks=pytest.mark.deep)], ids=str)
def test_rate_of_busy_seconds_is_exact_at_any_scrape_interval(
    intervals: tuple[int, ...],
    fake_nvml: Callable[..., Any],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    fake = fake_nvml({f"gpu{number}.utilization": pattern for number, (pattern, _) in enumerate(PATTERNS.values())})
    with exporter(tmp_path, environment=fake.environment) as running:
        target = [{"targets": [running.url.removeprefix("http://")]}]
        jobs = [{"job_name": f"every-{s}s", "scrape_interval": f"{s}s", "static_configs": target} for s in intervals]
        config = tmp_path / "prometheus.yml"
        config.write_text(json.dumps({"scrape_configs": jobs}))
        with prometheus(config, tmp_path) as url:
            for seconds in intervals:
                job = f'job="every-{seconds}s"'
                window, wanted = f"{WINDOWS[seconds]}s", SCRAPES[seconds]
                poll(f"{wanted} scrapes of {job}", lambda job=job, n=wanted: _scrapes(url, job) >= n or None, 300, 1.0)
                for gpu, (_, told) in PATTERNS.items():
                    found = _value(url, f'rate(gpu_busy_seconds_total{{{job},uuid="{gpu}"}}[{window}])')
                    record_property("measured", f"every {seconds} s: told {told}, rate()[{window}] {found:.4f}")
                    assert found == pytest.approx(told, abs=LATE / (WINDOWS[seconds] - seconds))


def _scrapes(url: str, job: str) -> float:
    return _value(url, f"sum(count_over_time(up{{{job}}}[10m]))")


def _value(url: str, query: str) -> float:
    answer = requests.get(f"{url}/api/v1/query", params={"query": query, "time": str(time.time())}, timeout=10).json()
    assert answer["status"] == "success", answer
    result = answer["data"]["result"]
    return float(result[0]["value"][1]) if result else 0.0
