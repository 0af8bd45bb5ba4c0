"""`make otel`: every family arrives under its own name through OpenTelemetry's collector and Prometheus's agent.

Needs Go: the first run builds the collector, which takes ten minutes and more. Ends with status 1 where a name is lost.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path

import requests
from prometheus_client.parser import text_string_to_metric_families

from tests.exporter_process import exporter
from tests.stack import ROOT, poll, prometheus, running

HERE = Path(__file__).resolve().parent
FOLDER = ROOT / ".cache/otel"
COLLECTOR = FOLDER / "otelcol"
BUILDER = "go.opentelemetry.io/collector/cmd/builder@v0.155.0"
ARRIVAL_SECONDS = 60


def main() -> int:
    if not COLLECTOR.exists():
        if shutil.which("go") is None:
            sys.stderr.write("otel: go is missing (1.25 or newer)\n")
            return 2
        build()
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


def agent(folder: Path, target: str, database: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Run Prometheus in agent mode."""
    config = folder / "agent.json"
    scrape = [{"job_name": "gpu", "scrape_interval": "1s", "static_configs": [{"targets": [target]}]}]
    config.write_text(json.dumps({"scrape_configs": scrape, "remote_write": [{"url": f"{database}/api/v1/write"}]}))
    flags = ("--enable-feature=agent", f"--storage.agent.path={folder / 'agent'}", "--web.listen-address=127.0.0.1:0")
    return running(["prometheus", *flags, f"--config.file={config}"], folder / "agent.log")


SCRAPERS = {"otelcol": collector, "prometheus-agent": agent}


def _families(page: str) -> set[str]:
    return {sample.name for family in text_string_to_metric_families(page) for sample in family.samples}


def _stored(database: str) -> set[str]:
    """Return the names of the series in Prometheus."""
    answer = requests.get(f"{database}/api/v1/label/__name__/values", timeout=10)
    return set(answer.json()["data"])


if __name__ == "__main__":
    sys.exit(main())
