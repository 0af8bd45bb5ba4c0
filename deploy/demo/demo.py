"""`make demo`: four simulated nodes, a real Prometheus and Alertmanager, and a page that shows all of it.

Everything listens on loopback, keeps its data in a folder below .cache/demo, and ends with Ctrl-C.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from deploy.demo import cluster, grafana
from deploy.demo.entrance import Links
from deploy.demo.inbox import Inbox, Mailbox, Message
from deploy.demo.processes import DemoError, Service, free_port, running
from deploy.demo.prometheus import Prometheus
from deploy.demo.site import Site, SiteServer, dashboards

_ROOT = cluster.ROOT


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, help="end by itself after so long")
    parser.add_argument(
        "--port", type=int, default=8080, help="port of the first page (any free one where it is taken)"
    )
    given = parser.parse_args()
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    data = _ROOT / ".cache/demo"
    data.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=data, prefix="run-") as work:
            _run(Path(work), free_port(given.port), ended, given.seconds)
    except DemoError as error:
        sys.stderr.write(f"demo: {error}\n")
        return 1
    return 0


def _run(work: Path, port: int, ended: threading.Event, seconds: float | None) -> None:
    began = time.monotonic()
    inbox = Inbox(_print_message)
    with Mailbox(inbox) as mailbox, SiteServer(port, inbox) as server:
        for each in (mailbox, server):
            threading.Thread(target=each.serve_forever, daemon=True).start()
        nodes = cluster.exporters(server.url)
        alerts = cluster.alertmanager(work, server.url, mailbox.port)
        metrics = cluster.prometheus(work, nodes, alerts, server.url)
        server.site = _site(inbox, nodes, alerts, metrics, work)
        print_line(f"== Starting {len(nodes)} nodes, Prometheus and Alertmanager")
        with running((*nodes, alerts, metrics), work, _ROOT):
            print_line(_opened(server.url, nodes, metrics, time.monotonic() - began))
            ended.wait(seconds)
            print_line("\nstopping")
        for each in (server, mailbox):
            each.shutdown()


def _site(inbox: Inbox, nodes: Sequence[Service], alerts: Service, metrics: Service, work: Path) -> Site:
    shown = dashboards()
    links = Links(
        nodes={node.name: node.url for node in nodes},
        prometheus=metrics.url,
        dashboards=[(dashboard.title, dashboard.uid) for dashboard in shown],
        grafana=grafana.command(metrics.url, _ROOT / "dashboards/json", work / "grafana"),
    )
    return Site(Prometheus(metrics.url), alerts.url, inbox, links, {one.uid: one for one in shown})


def _opened(site: str, nodes: Sequence[Service], metrics: Service, seconds: float) -> str:
    lines = [f"   ready after {seconds:.1f} s. The GPUs are simulated, everything else is real. Open:", ""]
    lines += [f"  {site}/", ""]
    lines += ["  From there everything is a click away; these are the parts:", ""]
    lines += [f"  {node.url + '/':<35} status page of {node.name}" for node in nodes]
    lines += [
        f"  {metrics.url + '/graph':<35} Prometheus",
        f"  {site + '/d/gpu-fleet':<35} dashboards",
        f"  {site + '/report':<35} report of all GPU hours",
        f"  {site + '/inbox':<35} messages as people get them",
        "",
        "  Messages appear here too. Ctrl-C ends everything.",
        "",
    ]
    return "\n".join(lines)


def _print_message(message: Message) -> None:
    print_line(f"  {time.strftime('%H:%M:%S')} {message.kind} to {message.to}: {message.subject}")


def print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
