"""`make demo`: simulated nodes, a real Prometheus that scrapes them, a real Alertmanager, and the pages to open.

Everything listens on loopback, keeps its data in a temporary directory, and ends with Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any

from deploy.prometheus.render import Settings, render, to_yaml

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "deploy/prometheus/rules/gpu-recording.yaml"
IMPATIENT = Settings(
    values={
        "GpuUnderutilized": {"utilization": 0.5, "window": "1m", "for": "30s"},
        "GpuThermalThrottling": {"window": "1m", "for": "30s"},
        "GpuHeldIdle": {"window": "1m", "for": "30s"},
    },
    disabled={"GpuExporterSimulated"},
    interval="5s",
)
"""The alerts as they are, but for someone who does not want to wait half an hour for the first."""
NODES: Mapping[str, str] = {
    "train-1": "8xH200:4*training,2*input-bound,thermal,idle-held",
    "train-2": "8xH100:6*training,straggler,storage-bound",
    "serve-1": "4xL40S:2*inference,notebook,free",
    "mig-1": "4xA100-mig",
}
"""Node name to what it simulates: healthy jobs beside the ones an operator should find."""
_STARTUP = 30.0


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    command: tuple[str, ...]
    url: str
    ready: str
    what: str


def free_port(wanted: int) -> int:
    """`wanted`, or any free port when it is taken."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise SystemExit("demo: no free port on 127.0.0.1")


def exporters(python: str) -> list[Service]:
    made: list[Service] = []
    for number, (node, spec) in enumerate(NODES.items()):
        address = f"127.0.0.1:{free_port(9836 + number)}"
        command = (python, "-m", "exporter", "--simulate", f"{spec};node={node}", "--web.listen-address", address)
        url = f"http://{address}"
        made.append(Service(node, (*command, "--log.level", "warning"), url, f"{url}/-/ready", f"status page: {spec}"))
    return made


def prometheus(work: Path, nodes: Sequence[Service], alertmanager: str) -> Service:
    port = free_port(9090)
    targets = [
        {"targets": [node.url.removeprefix("http://")], "labels": {"cluster": "demo", "node": node.name}}
        for node in nodes
    ]
    relabel = [{"source_labels": ["node"], "target_label": "instance"}]
    (work / "alerts.yaml").write_text(to_yaml(render(IMPATIENT)))
    config = {
        "global": {"scrape_interval": "5s", "evaluation_interval": "5s"},
        "rule_files": [str(RECORDINGS), str(work / "alerts.yaml")],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        "scrape_configs": [{"job_name": "gpu-exporter", "static_configs": targets, "relabel_configs": relabel}],
    }
    (work / "prometheus.yml").write_text(json.dumps(config))
    command = (
        "prometheus",
        f"--config.file={work / 'prometheus.yml'}",
        f"--storage.tsdb.path={work / 'prometheus'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    )
    url = f"http://127.0.0.1:{port}"
    return Service("prometheus", command, url, f"{url}/-/ready", "metrics, rules, alerts")


def alertmanager(work: Path, receiver: int) -> Service:
    port = free_port(9093)
    config = {
        "route": {"receiver": "demo", "group_by": ["alertname", "node"], "group_wait": "5s", "group_interval": "30s"},
        "receivers": [{"name": "demo", "webhook_configs": [{"url": f"http://127.0.0.1:{receiver}/"}]}],
    }
    (work / "alertmanager.yml").write_text(json.dumps(config))
    command = (
        "alertmanager",
        f"--config.file={work / 'alertmanager.yml'}",
        f"--storage.path={work / 'alertmanager'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
        "--log.level=warn",
    )
    url = f"http://127.0.0.1:{port}"
    return Service("alertmanager", command, url, f"{url}/-/ready", "alerts that would reach on-call")


class Receiver(BaseHTTPRequestHandler):
    """Prints each notification, as on-call would get it."""

    def do_POST(self) -> None:
        body: Any = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for alert in body["alerts"]:
            labels = alert["labels"]
            where = " ".join(labels[name] for name in ("node", "gpu", "workload") if labels.get(name))
            summary = alert["annotations"].get("summary", "")
            say(f"  [{alert['status']}] {labels['alertname']} {where}: {summary}")
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the notification itself is printed."""


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:  # noqa: S310 - a loopback URL made here
            return bool(response.status == 200)  # noqa: PLR2004 - HTTP OK
    except (urllib.error.URLError, OSError):
        return False


def start(service: Service, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        # A session of its own: Ctrl-C reaches this program alone, which then ends the others in order.
        process = subprocess.Popen(
            service.command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT, start_new_session=True
        )
    deadline = time.monotonic() + _STARTUP
    while not answers(service.ready):
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"demo: {service.name} did not start:\n{log.read_text(errors='replace')}")
        time.sleep(0.1)
    return process


def stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in reversed(processes):
        process.terminate()
    for process in processes:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def describe(nodes: Sequence[Service], others: Sequence[Service]) -> str:
    example = others[-1].url + "/graph?g0.tab=1&g0.expr="
    lines = ["", "Simulated GPUs; everything else is real. Open:", ""]
    lines += [f"  {service.url:<24} {service.name:<13} {service.what}" for service in (*nodes, *others)]
    lines += [
        "",
        "  Where did the GPU seconds go?",
        f"  {example}sum%20by%20(node%2C%20state)%20(rate(gpu_time_seconds_total%5B1m%5D))",
        "",
        "  Notifications appear below as Alertmanager sends them. Ctrl-C ends everything.",
        "",
    ]
    return "\n".join(lines)


def run(work: Path, receiver: int, ended: threading.Event, seconds: float | None) -> None:
    processes: list[subprocess.Popen[bytes]] = []
    nodes = exporters(sys.executable)
    alerts = alertmanager(work, receiver)
    metrics = prometheus(work, nodes, alerts.url.removeprefix("http://"))
    try:
        for service in (*nodes, alerts, metrics):
            if ended.is_set():
                return
            say(f"starting {service.name}")
            processes.append(start(service, work / f"{service.name}.log"))
        say(describe(nodes, (alerts, metrics)))
        ended.wait(seconds)
    finally:
        say("stopping")
        stop(processes)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, help="end by itself after so long")
    seconds = parser.parse_args().seconds
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    receiver = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="gpu-exporter-demo-") as work:
        run(Path(work), receiver.server_port, ended, seconds)
    receiver.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
