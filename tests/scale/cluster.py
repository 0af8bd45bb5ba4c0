"""The web server of all copies, and a Prometheus that scrapes them with the shipped rules."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests

from tests.scale.moulds import ONE_JOB, SPECS, Mould
from tests.stack import ROOT, prometheus

RULES = ROOT / "deploy/prometheus/rules"
SCRAPE_SECONDS = 30


@contextlib.contextmanager
def exporters(job_nodes: int = 0, clock: Callable[[], float] = time.time) -> Iterator[int]:
    """The port of a server that answers for copy N at /N/metrics; the first ones run two jobs of so many nodes."""
    moulds = [Mould(spec, number, clock=clock) for number, spec in enumerate(SPECS)]
    jobs = [Mould(spec, len(SPECS) + number, one_job=True) for number, spec in enumerate(ONE_JOB if job_nodes else ())]
    for mould in (*moulds, *jobs):
        mould.start()

    def mould_of(copy: int) -> Mould:
        return jobs[copy // job_nodes] if copy < len(jobs) * job_nodes else moulds[copy % len(moulds)]

    server = _Server(("127.0.0.1", 0), _handler(mould_of))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        for mould in (*moulds, *jobs):
            mould.stop()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


def _handler(mould_of: Callable[[int], Mould]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            copy = int(self.path.split("/")[1])
            body = mould_of(copy).exposition(copy)
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # Prometheus reloads
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing of a thousand requests."""

    return Handler


@dataclass(frozen=True, slots=True)
class Scraping:
    """A Prometheus with the shipped rules that scrapes the copies."""

    url: str
    config: Path

    def use_rules(self, files: Sequence[Path]) -> None:
        """From now on it evaluates these; without any it only scrapes."""
        self._change({"rule_files": [str(file) for file in files]})

    def rest(self) -> None:
        """From now on it only answers."""
        self._change({"rule_files": [], "scrape_configs": []})

    def _change(self, parts: Mapping[str, Any]) -> None:
        self.config.write_text(json.dumps({**json.loads(self.config.read_text()), **parts}))
        requests.post(f"{self.url}/-/reload", timeout=300).raise_for_status()


@contextlib.contextmanager
def scraped(
    nodes: int, port: int, folder: Path, job_nodes: int = 0, alerts: Path = RULES / "gpu-alerts.yaml"
) -> Iterator[Scraping]:
    """So many nodes, half of them in each of two clusters; a job's nodes are in one."""
    in_jobs = len(ONE_JOB) * job_nodes
    groups = [
        {
            "targets": [f"127.0.0.1:{port}"],
            "labels": {
                "__metrics_path__": f"/{copy}/metrics",
                "cluster": "west" if copy < in_jobs or copy % len(SPECS) < len(SPECS) // 2 else "east",
                "instance": f"node-{copy:04d}:9836",
                "node": f"node-{copy:04d}",
            },
        }
        for copy in range(nodes)
    ]
    (folder / "targets.json").write_text(json.dumps(groups))
    document = {
        "global": {
            "scrape_interval": f"{SCRAPE_SECONDS}s",
            "scrape_timeout": f"{SCRAPE_SECONDS}s",
            "evaluation_interval": "1m",
        },
        "rule_files": [str(RULES / "gpu-recording.yaml"), str(alerts)],
        "scrape_configs": [
            {"job_name": "gpu-exporter", "file_sd_configs": [{"files": [str(folder / "targets.json")]}]}
        ],
    }
    config = folder / "prometheus.yml"
    config.write_text(json.dumps(document))
    with prometheus(config, folder, "--query.timeout=5m", "--web.enable-lifecycle") as url:
        yield Scraping(url, config)
