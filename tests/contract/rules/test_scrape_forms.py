"""Exporters are found by what they serve: alerts on targets are the same in every form of scraping."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.rules.notation import GONE, minutes
from tests.contract.rules.promtool import RULES, complaint

_ALERTS = "Gpu(ExporterDown|ExportersDown|TargetsGone|SampleStale|NodeWithoutExporter)"
_GROUPS = (
    *("gpu-target", "gpu-node", "gpu-place", "gpu-day"),
    *("gpu-exporter.alerts", "gpu-exporter-slow.alerts", "gpu-fleet.alerts", "gpu-fleet-slow.alerts"),
)
_NODES = 4
_UP, _FAILS, _LEAVES = "1x90", "1x20 0x70", "1x20 _x70"

Series = Mapping[str, str]
Target = Callable[[int], str]
"""The labels of the exporter of a node, by number."""


def _monitor(node: int) -> str:
    pod = f'namespace="gpu-monitoring",pod="gpu-exporter-{node}",container="exporter",endpoint="metrics"'
    return f'job="gpu-exporter",node="n{node}",instance="10.0.0.{node}:9836",{pod}'


def _scrape_config(node: int) -> str:
    return f'job="scrapeConfig/monitoring/gpus",instance="10.0.0.{node}:9836"'


def _annotations(node: int) -> str:
    pod = f'namespace="gpu-monitoring",pod="gpu-exporter-{node}"'
    return f'job="kubernetes-pods",node="n{node}",instance="10.0.0.{node}:9836",{pod}'


def _static(node: int) -> str:
    return f'cluster="c1",job="hosts",instance="n{node}:9836"'


_FORMS: Mapping[str, Target] = {
    "the chart's monitors": _monitor,
    "a ScrapeConfig": _scrape_config,
    "pod annotations": _annotations,
    "a static config": _static,
}


def exporter(labels: str, up: str) -> Series:
    """Return `up` of a target and, while it is 1, the series by which an exporter is known."""
    served = " ".join("stale" if value not in GONE and not float(value) else value for value in minutes(up))
    return {f"up{{{labels}}}": up, f"gpu_exporter_build_info{{{labels}}}": served}


def others(up: str) -> Series:
    """Return other people's pods, in the job of all pods with annotations, and a node exporter."""
    pods = [f'job="kubernetes-pods",namespace="shop",pod="web-{n}",instance="10.0.1.{n}:8080"' for n in range(3)]
    return {f"up{{{labels}}}": up for labels in (*pods, 'job="node-exporter",instance="10.0.0.1:9100"')}


def fleet(target: Target, changing: int, up: str) -> Series:
    """Return the exporters of all nodes, the first `changing` of them with this `up`."""
    ups = [up] * changing + [_UP] * (_NODES - changing)
    return {name: of for node, each in enumerate(ups) for name, of in exporter(target(node), each).items()}


@dataclass(frozen=True, slots=True)
class Situation:
    """Exporters of which `changing` have this `up`, and the alerts that fire at minute 60: by node, or of the fleet."""

    changing: int
    up: str
    by_node: str = ""
    of_fleet: tuple[str, ...] = ()


_SITUATIONS = {
    "all are up": Situation(0, _UP),
    "one is down": Situation(1, _FAILS, "GpuExporterDown"),
    "most are down": Situation(3, _FAILS, "GpuExporterDown", ("GpuExportersDown",)),
    "half are no targets any more": Situation(2, _LEAVES, of_fleet=("GpuTargetsGone",)),
    "none is a target any more": Situation(4, _LEAVES, of_fleet=("GpuTargetsGone",)),
    "one comes and goes": Situation(1, "1x2 0x2 " * 15, "GpuSampleStale"),
}


@pytest.mark.parametrize("situation", _SITUATIONS.values(), ids=_SITUATIONS)
@pytest.mark.parametrize("target", _FORMS.values(), ids=_FORMS)
def test_target_alerts_are_the_same_in_every_scrape_form(target: Target, situation: Situation, tmp_path: Path) -> None:
    series = {**others(_UP), **fleet(target, situation.changing, situation.up)}
    fired = {(alert, "") for alert in situation.of_fleet}
    if situation.by_node:
        fired |= {(situation.by_node, instance(target(node))) for node in range(situation.changing)}

    assert firing(series, 60, fired, tmp_path) == ""


@pytest.mark.parametrize("target", _FORMS.values(), ids=_FORMS)
def test_exporter_of_each_node_of_kubernetes_is_found(target: Target, tmp_path: Path) -> None:
    capacity = {f'kube_node_status_capacity{{resource="nvidia_com_gpu",node="n{n}"}}': _UP for n in range(_NODES)}

    assert firing({**fleet(target, 0, _UP), **capacity}, 60, set(), tmp_path) == ""


@pytest.mark.parametrize(
    "values", [_FAILS, _LEAVES, "0x90", "1x2 0x2 " * 15], ids=["down", "gone", "never up", "flapping"]
)
def test_other_pods_of_the_job_raise_no_alert(values: str, tmp_path: Path) -> None:
    series = {**others(_UP), **exporter(_annotations(0), _UP)}
    pods = {
        f'up{{job="kubernetes-pods",namespace="shop",pod="api-{n}",instance="10.0.2.{n}:80"}}': values for n in range(9)
    }

    assert firing({**series, **pods}, 60, set(), tmp_path) == ""


@pytest.mark.parametrize("at", [60, 560])
def test_pods_that_fail_together_raise_an_alert_for_exporters_alone(at: int, tmp_path: Path) -> None:
    """As where Prometheus loses its network, whatever time that lasts."""
    fails = "1x20 0x600"
    series = {**others(fails), **exporter(_annotations(0), fails)}

    assert firing(series, at, {("GpuExporterDown", "10.0.0.0:9836")}, tmp_path) == ""


def test_target_that_has_not_answered_for_an_hour_is_missed_where_the_job_has_exporters_only(tmp_path: Path) -> None:
    series = {**fleet(_static, 1, "_x10 0x80"), **others(_UP)}

    assert firing(series, 60, set(), tmp_path) == ""
    assert firing(series, 85, {("GpuExporterDown", "n0:9836")}, tmp_path) == ""


def test_exporter_that_is_down_is_known_after_prometheus_was_away_for_hours(tmp_path: Path) -> None:
    away = "1x20 _x180 0x60"
    series = {**exporter(_annotations(0), away), **exporter(_annotations(1), "1x20 _x180 1x60")}

    assert firing(series, 240, {("GpuExporterDown", "10.0.0.0:9836")}, tmp_path) == ""


def test_address_that_another_program_took_over_is_no_exporter_any_more(tmp_path: Path) -> None:
    labels = _annotations(0)
    known = {name: up for n in range(1, 9) for name, up in exporter(_annotations(n), _UP).items()}
    taken = {f"up{{{labels}}}": "1x40 0x50", f"gpu_exporter_build_info{{{labels}}}": "1x20 stale"}

    assert firing({**known, **taken}, 80, set(), tmp_path) == ""


def firing(series: Series, at: int, alerts: set[tuple[str, str]], folder: Path) -> str:
    """Return promtool's complaint where, at this minute, others than these (alert, instance) fire."""
    rules = folder / "rules.yaml"
    files = [yaml.safe_load((RULES / name).read_text()) for name in ("gpu-recording.yaml", "gpu-alerts.yaml")]
    groups = {group["name"]: group for file in files for group in file["groups"]}
    rules.write_text(yaml.safe_dump({"groups": [groups[name] for name in _GROUPS]}))
    query: dict[str, Any] = {
        "expr": f'count by (alertname, instance) (ALERTS{{alertname=~"{_ALERTS}",alertstate="firing"}})',
        "eval_time": f"{at}m",
        "exp_samples": [
            {"labels": _labels(alertname=alert, instance=where), "value": 1} for alert, where in sorted(alerts)
        ],
    }
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [query],
    }
    document = {
        "rule_files": [str(rules)],
        "evaluation_interval": "1m",
        "group_eval_order": list(_GROUPS),
        "tests": [test],
    }
    return complaint(document, folder)


def _labels(**values: str) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in values.items() if value) + "}"


def instance(labels: str) -> str:
    """Return the label `instance` among these."""
    return labels.partition('instance="')[2].partition('"')[0]
