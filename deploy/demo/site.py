"""The demo's own web server: entrance, dashboards, messages, reports, runbooks."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit

import requests

from deploy.demo import entrance, runbook
from deploy.demo.cluster import ROOT
from deploy.demo.drawing import document, page
from deploy.demo.drawing.document import Dashboard
from deploy.demo.drawing.style import STYLE as DRAWING
from deploy.demo.entrance import Links
from deploy.demo.inbox import Inbox, from_http
from deploy.demo.prometheus import Prometheus
from deploy.demo.style import frame
from deploy.demo.written import written
from deploy.prometheus.recordings import INTERVAL

_HTML = "text/html; charset=utf-8"
_LARGEST = 1 << 20
_REPORT_SECONDS = 30.0

Query = Mapping[str, str]
Answer = tuple[HTTPStatus, str]


def dashboards() -> Sequence[Dashboard]:
    return [document.load(path) for path in sorted((ROOT / "dashboards/json").glob("*.json"))]


@dataclass(frozen=True, slots=True)
class Site:
    """Contents of each path. A page is an HTML text."""

    prometheus: Prometheus
    alertmanager: str
    inbox: Inbox
    links: Links
    dashboards: Mapping[str, Dashboard]

    def page(self, path: str, query: Query) -> Answer:
        if path == "/":
            return self._framed("GPU cluster", entrance.body(self.prometheus, self.inbox.messages(), self.links), 5)
        first, _, rest = path.removeprefix("/").partition("/")
        found = _PAGES.get(first)
        return found(self, unquote(rest), query) if found else _missing(path)

    def dashboard(self, uid: str, query: Query) -> Answer:
        shown = self.dashboards.get(uid)
        if shown is None:
            return _missing(f"/d/{uid}")
        note = (
            f'<p class="note">Drawn by the demo from <code>dashboards/json/{escape(shown.file.name)}</code> and live '
            "data of simulated GPUs. It is not Grafana: no zoom, no annotations, no hover over several series. "
            f"All recording rules are evaluated every {INTERVAL} here: a young demo has gaps.</p>"
        )
        drawn = page.draw(shown, {"var-docs": "/docs/", **query}, self.prometheus, time.time())
        return self._framed(f"{shown.title} dashboard", note + drawn, 15, DRAWING)

    def messages(self, _rest: str, _query: Query) -> Answer:
        shown = entrance.inbox(self.inbox.messages()) or "<p>No message yet.</p>"
        return self._framed("Messages, newest first", shown, 5)

    def alerts(self, _rest: str, _query: Query) -> Answer:
        """The alerts Alertmanager has, with what mutes them."""
        try:
            alerts = requests.get(f"{self.alertmanager}/api/v2/alerts", timeout=5).json()
        except (requests.RequestException, ValueError):
            return HTTPStatus.BAD_GATEWAY, frame("Alertmanager does not answer", (), "")
        rows = "".join(
            f"<tr><td>{escape(alert['labels']['alertname'])}</td><td>{escape(alert['annotations'].get('summary', ''))}"
            f"</td><td>{escape(_fate(alert))}</td></tr>"
            for alert in alerts
        )
        return self._framed("Alertmanager", f'<div class="card"><table>{rows}</table></div>', 5)

    def report(self, what: str, _query: Query) -> Answer:
        """Return the output of `gpu-exporter report` for a workload, or for everybody."""
        command = [sys.executable, "-m", "exporter", "report", *_subject(what)]
        command += ["--prometheus.url", self.prometheus.url, "--format", "html"]
        try:
            done = subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, timeout=_REPORT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return HTTPStatus.GATEWAY_TIMEOUT, frame("The report takes too long", (), "")
        if done.returncode == 0:
            return HTTPStatus.OK, done.stdout
        why = f'<p>{escape(done.stderr.strip())}</p><p class="dim">A workload must be a few minutes old.</p>'
        return self._framed("No report yet", why, 10)

    def documentation(self, path: str, query: Query) -> Answer:
        """A page below docs/, as it is written; links of dashboards lead here, and to the published ones elsewhere."""
        folder, _, file = path.rpartition("/")
        name = file.removesuffix(".md")
        if folder == "runbooks":
            return self.runbook(name, query)
        known = {each.name: each for each in (ROOT / "docs").glob("*.md")}
        if path not in known:
            return _missing(f"/docs/{path}")
        return self._framed(name.capitalize(), written(known[path].read_text()), 0)

    def runbook(self, name: str, _query: Query) -> Answer:
        shown = runbook.body(name, self.prometheus, self.links.nodes)
        return self._framed(f"Runbook {name}", shown, 0) if shown else _missing(f"/runbooks/{name}")

    def _framed(self, title: str, body: str, refresh: int, style: str = "") -> Answer:
        menu = [("Overview", "/"), *((name, f"/d/{uid}") for name, uid in self.links.dashboards if uid in _IN_MENU)]
        menu += [("Report", "/report"), ("Messages", "/inbox")]
        return HTTPStatus.OK, frame(title, menu, body, style=style, refresh=refresh)


_IN_MENU = ("gpu-fleet", "gpu-waste")
"""Dashboards in the menu of each page. The first page links to all."""
_PAGES: Mapping[str, Callable[[Site, str, Query], Answer]] = {
    "d": Site.dashboard,
    "inbox": Site.messages,
    "alertmanager": Site.alerts,
    "report": Site.report,
    "runbooks": Site.runbook,
    "docs": Site.documentation,
}


def _missing(path: str) -> Answer:
    return HTTPStatus.NOT_FOUND, frame("Not found", [("Overview", "/")], f"<p>{escape(path)}</p>")


def _subject(what: str) -> Sequence[str]:
    if not what:
        return ("--all", "--since", "1h")
    kind, colon, rest = what.partition(":")
    return (rest,) if colon and kind == "slurm" else ("--pod", what)


def _fate(alert: Mapping[str, Mapping[str, object]]) -> str:
    status = alert["status"]
    return f"{status.get('state')}: told by another alert" if status.get("inhibitedBy") else str(status.get("state"))


class SiteServer(ThreadingHTTPServer):
    """Serves the site once it is set; until then every page says that the demo starts."""

    daemon_threads = True

    def __init__(self, port: int, inbox: Inbox) -> None:
        self.inbox = inbox
        self.site: Site | None = None
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: SiteServer  # pyright: ignore[reportIncompatibleVariableOverride]
    timeout = 30.0

    def do_GET(self) -> None:
        site = self.server.site
        asked = urlsplit(self.path)
        if site is None:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, frame("The demo starts", (), "", refresh=1))
        else:
            self._answer(*site.page(asked.path, dict(parse_qsl(asked.query))))

    def do_POST(self) -> None:
        """A message from Alertmanager."""
        length = min(int(self.headers.get("Content-Length") or 0), _LARGEST)
        kind = self.path.removeprefix("/receive/").partition("/")[0]
        try:
            self.server.inbox.add(from_http(kind, self.rfile.read(length)))
        except (ValueError, KeyError, TypeError):
            self._answer(HTTPStatus.BAD_REQUEST, "not understood")
            return
        status = HTTPStatus.ACCEPTED if kind == "page" else HTTPStatus.OK
        self._answer(status, json.dumps({"status": "success", "message": "taken", "dedup_key": "demo"}))

    def _answer(self, status: HTTPStatus, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", _HTML)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """The demo's terminal is for people."""
