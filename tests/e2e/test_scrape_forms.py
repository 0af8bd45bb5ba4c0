"""One exporter, scraped in the forms that people use: the same rows are recorded, with the owners' own labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import requests
import yaml

from tests.exporter_process import exporter
from tests.stack import ROOT, poll, prometheus

OURS = {"namespace": "monitoring", "pod": "gpu-exporter-x7k2p", "container": "gpu-exporter"}
"""Labels that a scraper gives to the exporter's own pod."""
ENFORCED = [{"target_label": "namespace", "replacement": "monitoring", "action": "replace"}]
"""What the operator adds for `enforcedNamespaceLabel`."""
FORMS: dict[str, dict[str, Any]] = {
    "monitor": {"honor_labels": True},
    "annotations": {"honor_labels": False, "labels": OURS},
    "enforced": {"honor_labels": True, "metric_relabel_configs": ENFORCED},
    "job of another name": {"honor_labels": False, "labels": {**OURS, "job": "kubernetes-pods"}},
    "ScrapeConfig": {"honor_labels": False, "labels": {**OURS, "job": "scrapeConfig/monitoring/gpus"}},
    # OpenShift's user workload monitoring: `enforcedNamespaceLabel` and `overrideHonorLabels`.
    "OpenShift": {"honor_labels": False, "labels": OURS, "metric_relabel_configs": ENFORCED},
    # Google's Managed Service for Prometheus: no label of a sample wins over one of the target.
    "GMP": {"honor_labels": False, "labels": {**OURS, "project_id": "shop", "location": "europe-west4"}},
}
"""By the label `cluster`, which keeps their rows apart."""
SEEN_LEAST = 40
"""Names of recorded rows that a simulated node has from its first minute on."""


def _job(number: int, cluster: str, target: str) -> dict[str, Any]:
    form = dict(FORMS[cluster])
    labels = {"cluster": cluster, "job": "gpus", "instance": "n1", "node": "n1", **form.pop("labels", {})}
    return {"job_name": f"form-{number}", "static_configs": [{"targets": [target], "labels": labels}], **form}


def _config(folder: Path, target: str) -> Path:
    rules = yaml.load((ROOT / "deploy/prometheus/rules/gpu-recording.yaml").read_text(), yaml.CSafeLoader)
    for group in rules["groups"]:
        group["interval"] = "1s"
    (folder / "rules.yaml").write_text(json.dumps(rules))
    config = folder / "prometheus.yaml"
    config.write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
                "rule_files": ["rules.yaml"],
                "scrape_configs": [_job(number, cluster, target) for number, cluster in enumerate(FORMS)],
            }
        )
    )
    return config


def _rows(url: str) -> dict[str, set[tuple[tuple[str, str], ...]]]:
    """Return the recorded rows of each form: their labels, without that of the form and the job's name."""
    answer = requests.get(f"{url}/api/v1/query", params={"query": '{__name__=~".+:.+"}'}, timeout=10).json()
    found: dict[str, set[tuple[tuple[str, str], ...]]] = {cluster: set() for cluster in FORMS}
    for each in answer["data"]["result"]:
        labels = {name: value for name, value in each["metric"].items() if name not in ("cluster", "job")}
        if "cluster" in each["metric"]:
            found[each["metric"]["cluster"]].add(tuple(sorted(labels.items())))
    return found


def test_recorded_rows_are_the_same_under_every_scrape_form(tmp_path: Path) -> None:
    with exporter(tmp_path, "--simulate", "4xH200:training+2xH200:inference", "--sample.interval", "1s") as source:
        target = source.url.removeprefix("http://")
        with prometheus(_config(tmp_path, target), tmp_path) as url:

            def same() -> dict[str, set[tuple[tuple[str, str], ...]]] | None:
                rows = _rows(url)
                names = {dict(row)["__name__"] for row in rows["monitor"]}
                return rows if len(names) >= SEEN_LEAST and len(set(map(frozenset, rows.values()))) == 1 else None

            try:
                rows = poll("the same rows of every form", same, 60, 1.0)
            except AssertionError:
                rows = _rows(url)

    wanted = rows["monitor"]
    names = {dict(row)["__name__"] for row in wanted}
    assert len(names) >= SEEN_LEAST, names
    for cluster, found in rows.items():
        assert (sorted(found - wanted), sorted(wanted - found)) == ([], []), cluster
    assert not any("monitoring" in dict(row).values() for row in wanted)
