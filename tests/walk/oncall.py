"""The way of whoever is called, in the demo and with a browser: message, runbook, dashboards, the check on the node."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from deploy.demo.cluster import ROOT
from tests.walk.running import CHROMIUM, browse, links, visit

_MESSAGE = re.compile(r'<article class="message (\w+)">(.*?)</article>', re.DOTALL)
_FIRES = re.compile(r"<h2>\w+ fires now</h2><ul>(.*?)</ul>", re.DOTALL)
_RULES = re.compile(r"gpu-exporter check</code> \(([\w, ]+)\)")
_TIMEOUT_SECONDS = 120.0


def walk(site: str) -> Mapping[str, Sequence[str]]:
    """What was opened on the way from a page, a mail and a ticket, each to its end."""
    read = browse if CHROMIUM else visit
    inbox = _until(lambda: read(f"{site}/inbox"), lambda page: {"page", "mail", "ticket"} <= set(_by_kind(page)))
    return {kind: _way(site, text, read) for kind, text in _by_kind(inbox).items()}


def _by_kind(inbox: str) -> Mapping[str, str]:
    """The newest message of each kind that has a runbook of an alert that fires."""
    return {
        kind: text
        for kind, text in reversed(_MESSAGE.findall(inbox))
        if "/runbooks/" in text and "Resolved:" not in text
    }


def _way(site: str, message: str, read: Callable[[str], str]) -> Sequence[str]:
    """Every link of the message, then every link that its runbook gives for what fires, then the check."""
    opened: list[str] = []
    for url in links(site, message):
        page = _until(partial(read, url), _FIRES.search if "/runbooks/" in url else len)
        opened.append(url)
        for fires in _FIRES.findall(page):
            onward = links(site, fires)
            assert onward, f"{url} leads nowhere"
            for each in onward:
                shown = read(each)
                assert "Not found" not in shown, each
                assert "<svg" in shown or "<table" in shown, f"{each} shows nothing"
                opened.append(each)
            if rules := _RULES.search(fires):
                opened.append(_checked(fires, rules[1].split(", ")))
    return opened


def _checked(fires: str, rules: Sequence[str]) -> str:
    """The check of the node's exporter finds it by one of the rules that the runbook names."""
    (status,) = re.findall(r'href="(http://127\.0\.0\.1:\d+)/"', fires)
    command = [sys.executable, "-m", "exporter", "check", "--check.url", f"{status}/metrics", "--format", "json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    found = {each["rule"] for each in json.loads(done.stdout)["findings"]}
    assert found & set(rules), (rules, done.stdout, done.stderr)
    return " ".join(command[3:])


def _until(read: Callable[[], str], good: Callable[[str], object]) -> str:
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    page = read()
    while not good(page):
        assert time.monotonic() < deadline, page[:3000]
        time.sleep(1)
        page = read()
    return page
