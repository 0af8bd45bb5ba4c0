"""`make otel`: families keep their names through OpenTelemetry's collector, agents of Prometheus 2 and 3, and vmagent.

Needs Go: the first run builds the collector and Prometheus 3, which takes twenty minutes and more. Ends with status 1
where a name is lost.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import requests
from prometheus_client.parser import text_string_to_metric_families

from tests.exporter_process import exporter
from tests.stack import ROOT, free_port, poll, prometheus, running

HERE = Path(__file__).resolve().parent
FOLDER = ROOT / ".cache/otel"
COLLECTOR = FOLDER / "otelcol"
PROMETHEUS3 = FOLDER / "prometheus3"
VMAGENT = ROOT / ".cache/prometheus/unpacked/usr/bin/vmagent"
"""From Debian's package of victoria-metrics."""
PROMETHEUS3_MODULE = "github.com/prometheus/prometheus/cmd/prometheus"
PROMETHEUS3_VERSION = "v0.305.0"
BUILDER = "go.opentelemetry.io/collector/cmd/builder@v0.155.0"
ARRIVAL_SECONDS = 60


def main() -> int:
    missing = [make for program, make in ((COLLECTOR, build), (PROMETHEUS3, build_prometheus)) if not program.exists()]
    if missing and shutil.which("go") is None:
        sys.stderr.write("otel: go is missing (1.25 or newer)\n")
        return 2
    for make in missing:
        make()
    with tempfile.TemporaryDirectory() as folder:
        lost = {f"{name}: {family}" for name in SCRAPERS for family in lost_names(Path(folder), name)}
    sys.stdout.write("".join(f"lost: {each}\n" for each in sorted(lost)))
    return 1 if lost else 0


def build() -> None:
    """Generate the collector's sources with its own builder, and compile them.

    The builder also runs `go mod tidy`, which asks for modules of tests. Its failure does not matter.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    source = FOLDER / "source"
    _run(["go", "install", BUILDER], FOLDER, GOBIN=str(FOLDER))
    subprocess.run(
        [FOLDER / "builder", "--config", HERE / "builder.yaml", "--skip-compilation"], cwd=FOLDER, check=False
    )
    _run(["go", "build", "-o", str(COLLECTOR), "."], source, GOFLAGS="-mod=mod")


def build_prometheus() -> None:
    """Compile Prometheus 3 from a module of its own: `go install` refuses its replacements."""
    source = FOLDER / "prometheus3-source"
    source.mkdir(parents=True, exist_ok=True)
    (source / "go.mod").write_text("module gpu-exporter.test/prometheus3\n\ngo 1.26.0\n")
    _run(["go", "get", f"{PROMETHEUS3_MODULE}@{PROMETHEUS3_VERSION}"], source)
    _run(["go", "build", "-o", str(PROMETHEUS3), PROMETHEUS3_MODULE], source, GOFLAGS="-mod=mod", CGO_ENABLED="0")


def _run(command: list[str], folder: Path, **environment: str) -> None:
    subprocess.run(command, cwd=folder, env={**os.environ, "GOWORK": "off", **environment}, check=True)


def lost_names(folder: Path, scraper: str) -> set[str]:
    """Return the families of a simulated node that do not arrive in Prometheus through a scraper."""
    config = folder / "prometheus.yaml"
    config.write_text("{}")
    with (
        exporter(folder, "--simulate", "4xH200+2xH200-mig") as source,
        prometheus(config, folder, "--web.enable-remote-write-receiver") as database,
        SCRAPERS[scraper](folder, source.url.removeprefix("http://"), database),
    ):
        sent = _families(requests.get(f"{source.url}/metrics", timeout=10).text)
        try:
            poll("all names to arrive", lambda: sent <= _stored(database) or None, ARRIVAL_SECONDS)
        except AssertionError:
            sys.stderr.write(f"arrived as well: {sorted(_stored(database) - sent)}\n")
        stored = _stored(database)
        sys.stdout.write(f"{scraper}: {len(sent & stored)} of {len(sent)} names arrive\n")
        return sent - stored


def collector(folder: Path, target: str, database: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    addresses = (f"EXPORTER={target}", f"PROMETHEUS={database}")
    return running(
        ["env", *addresses, str(COLLECTOR), "--config", str(HERE / "collector.yaml")], folder / "otelcol.log"
    )


def agent(
    program: str, mode: str, folder: Path, target: str, database: str
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Run Prometheus in agent mode."""
    config = _config(folder, target, remote_write=[{"url": f"{database}/api/v1/write"}])
    state = Path(tempfile.mkdtemp(dir=folder))
    flags = (mode, f"--storage.agent.path={state}", "--web.listen-address=127.0.0.1:0")
    return running([program, *flags, f"--config.file={config}"], folder / "agent.log")


def vmagent(folder: Path, target: str, database: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    flags = (
        f"-promscrape.config={_config(folder, target)}",
        f"-remoteWrite.url={database}/api/v1/write",
        f"-remoteWrite.tmpDataPath={tempfile.mkdtemp(dir=folder)}",
        f"-httpListenAddr=127.0.0.1:{free_port()}",
    )
    return running([str(VMAGENT), *flags], folder / "vmagent.log")


def _config(folder: Path, target: str, **more: Any) -> Path:
    config = folder / "agent.json"
    scrape = [{"job_name": "gpu", "scrape_interval": "1s", "static_configs": [{"targets": [target]}]}]
    config.write_text(json.dumps({"scrape_configs": scrape, **more}))
    return config


Scraper = Callable[[Path, str, str], AbstractContextManager["subprocess.Popen[bytes]"]]
SCRAPERS: Mapping[str, Scraper] = {
    "otelcol": collector,
    "prometheus-2-agent": partial(agent, "prometheus", "--enable-feature=agent"),
    "prometheus-3-agent": partial(agent, str(PROMETHEUS3), "--agent"),
    "vmagent": vmagent,
}


def _families(page: str) -> set[str]:
    return {sample.name for family in text_string_to_metric_families(page) for sample in family.samples}


def _stored(database: str) -> set[str]:
    """Return the names of the series in Prometheus."""
    answer = requests.get(f"{database}/api/v1/label/__name__/values", timeout=10)
    return set(answer.json()["data"])


if __name__ == "__main__":
    sys.exit(main())
