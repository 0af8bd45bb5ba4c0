"""The alerts of the demo, which wait for seconds."""

from __future__ import annotations

from deploy.demo.cluster import settings
from deploy.prometheus.render import render


def test_alerts_with_a_window_of_seconds_outlast_missed_scrapes() -> None:
    made = settings("http://127.0.0.1/{name}")
    rules = [rule for group in render(made)["groups"] for rule in group["rules"] if rule["alert"] in made.values]

    assert len(rules) == len(made.values)
    assert {rule["keep_firing_for"] for rule in rules} == {"2m"}


def test_nobody_waits_minutes_for_an_alert_to_be_evaluated() -> None:
    assert {group["interval"] for group in render(settings("http://127.0.0.1/{name}"))["groups"]} == {"5s"}
