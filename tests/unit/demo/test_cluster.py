"""The alerts of the demo, which wait for seconds, and its recordings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import yaml

from deploy.demo.cluster import prometheus, settings
from deploy.demo.entrance import Links
from deploy.demo.inbox import Inbox
from deploy.demo.processes import Service
from deploy.demo.prometheus import Prometheus
from deploy.demo.site import Site, dashboards
from deploy.prometheus.render import render


def test_alerts_with_a_window_of_seconds_outlast_missed_scrapes() -> None:
    made = settings("http://127.0.0.1/{name}")
    rules = [rule for group in render(made)["groups"] for rule in group["rules"] if rule.get("alert") in made.values]

    assert len(rules) == len(made.values)
    assert {rule["keep_firing_for"] for rule in rules} == {"2m"}


def test_nobody_waits_minutes_for_an_alert_to_be_evaluated() -> None:
    assert {group["interval"] for group in render(settings("http://127.0.0.1/{name}"))["groups"]} == {"5s"}


def test_note_on_the_dashboards_says_how_often_recordings_are_evaluated(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:1"
    prometheus(tmp_path, (), Service("alertmanager", (), nowhere, "/"), nowhere)
    groups = yaml.safe_load((tmp_path / "recordings.yaml").read_text())["groups"]
    (shown, *_) = dashboards()
    site = Site(Prometheus(nowhere), nowhere, cast("Inbox", None), Links({}, nowhere, (), ""), {shown.uid: shown})
    _, page = site.dashboard(shown.uid, {})

    assert set(re.findall(r"rules are evaluated every (\w+)", page)) == {group["interval"] for group in groups}
