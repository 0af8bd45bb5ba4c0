"""The rules in a second evaluator: Debian's vmalert loads them, and VictoriaMetrics answers as Prometheus does."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from deploy.prometheus.render import render
from tests.contract.rules.case import Case
from tests.contract.rules.cases import CASES
from tests.contract.rules.notation import GONE, minutes
from tests.contract.rules.promtool import RULES, key
from tests.stack import free_port, poll, program, prometheus, running

MINUTE = 60
EXPRESSIONS = {
    rule["alert"]: rule["expr"] for group in render()["groups"] for rule in group["rules"] if "alert" in rule
}
OTHERWISE = {
    "GpuWatchdog": "vector(1) is of no case",
    "GpuTargetsGone": "asks for series that are nowhere, and all cases are in one database here",
}


@pytest.mark.parametrize("name", ["gpu-recording.yaml", "gpu-alerts.yaml"])
def test_vmalert_of_debian_loads_the_rules_without_the_delay(name: str, tmp_path: Path) -> None:
    lines = (RULES / name).read_text().splitlines(keepends=True)
    (tmp_path / name).write_text("".join(line for line in lines if "keep_firing_for:" not in line))

    done = subprocess.run(
        [program("vmalert"), "-dryRun", f"-rule={tmp_path / name}"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def samples(values: str) -> Iterator[tuple[int, float]]:
    """Minute and value, from promtool's notation."""
    return ((minute, float(value)) for minute, value in enumerate(minutes(values)) if value not in GONE)


def lines(number: int, case: Case, begin: int) -> Iterator[tuple[str, float, int]]:
    """Series, value and Unix time; the case is its cluster, so that all of them live side by side."""
    for series, values in case.series.items():
        named = series.replace('cluster="c1"', f'cluster="case{number}"').replace(
            'cluster="c2"', f'cluster="other{number}"'
        )
        name = named if "{" in named else f"{named}{{}}"
        for minute, value in samples(values):
            yield name, value, begin + minute * MINUTE


def answer(url: str, expr: str, at: int, number: int) -> set[frozenset[tuple[str, str]]]:
    """Labels of what an expression gives for a case."""
    response = requests.post(f"{url}/api/v1/query", data={"query": expr, "time": at}, timeout=30)
    assert response.ok, response.text
    found = [each["metric"] for each in response.json()["data"]["result"]]
    return {
        frozenset((name, text) for name, text in labels.items() if name != "__name__")
        for labels in found
        if labels.get("cluster") in {f"case{number}", f"other{number}"}
    }


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, int]]:
    """URLs of Prometheus and of VictoriaMetrics with the series of all cases, and when these begin."""
    folder = tmp_path_factory.mktemp("engines")
    begin = (int(time.time()) - 4 * 86400) // 7200 * 7200
    found = [line for number, case in enumerate(CASES) for line in lines(number, case, begin)]
    found.sort(key=lambda line: (line[0].partition("{")[0], line[0], line[2]))
    (folder / "series.txt").write_text("".join(f"{s} {v!r} {t}\n" for s, v, t in found) + "# EOF\n")
    command = ["tsdb", "create-blocks-from", "openmetrics", "-q", folder / "series.txt", folder / "prometheus"]
    subprocess.run([program("promtool"), *command], check=True, capture_output=True)
    (folder / "prometheus.yaml").write_text("{}\n")
    port = free_port()
    second = [
        *(program("victoria-metrics"), f"-storageDataPath={folder / 'vm'}", f"-httpListenAddr=127.0.0.1:{port}"),
        *("-search.latencyOffset=0s", "-memory.allowedBytes=256MB"),
    ]
    url = f"http://127.0.0.1:{port}"
    with prometheus(folder / "prometheus.yaml", folder) as first, running(second, folder / "vm.log"):
        poll("VictoriaMetrics to be ready", lambda: _ready(f"{url}/health"))
        text = "".join(f"{s} {v!r} {t * 1000}\n" for s, v, t in found)
        requests.post(f"{url}/api/v1/import/prometheus", data=text.encode(), timeout=60).raise_for_status()
        requests.get(f"{url}/internal/force_flush", timeout=30).raise_for_status()
        yield first, url, begin


def _ready(url: str) -> bool | None:
    try:
        return requests.get(url, timeout=2).ok or None
    except requests.RequestException:
        return None


@pytest.mark.xdist_group("second-evaluator")
def test_both_evaluators_find_the_same(engines: tuple[str, str, int]) -> None:
    first, second, begin = engines
    different = []
    for number, case in enumerate(CASES):
        if case.alert in OTHERWISE or any("stale" in values for values in case.series.values()):
            continue  # a marker of staleness cannot be imported
        for at in case.at:
            moment = begin + int(at.removesuffix("m")) * MINUTE
            ours, theirs = (answer(url, EXPRESSIONS[case.alert], moment, number) for url in (first, second))
            if ours != theirs:
                different.append((key(case), at, ours - theirs, theirs - ours))

    assert different == [], different
