"""One fault has one action: check, alert and runbook name the same first step."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from deploy.prometheus.render import ALERTS
from deploy.prometheus.wording import step_of
from exporter.faults.findings import LOAD, RELOAD, REPAIRS
from exporter.faults.rules import RECOVERY, RULES
from tests.contract.rules.promtool import EXPECTED
from tests.stack import ROOT

WITHOUT_ALERT = {"leftover", "nvswitch_error"}
"""Findings of the check alone: the alert of their page is about something else."""
ACTIONS = {
    **{f"{rule.name} of {rule.runbook}": (rule.runbook, rule.action) for rule in RULES if "{" not in rule.action},
    **{f"repair {name}": (page, action) for name, (_, page, action) in REPAIRS.items()},
    "driver": ("gpudriverunavailable", LOAD),
    "driver that differs": ("gpudriverunavailable", RELOAD),
}


def plain(text: str) -> str:
    """Return a text in lower case without marks of code."""
    return text.replace("`", "").lower()


def fix_first(page: str) -> str:
    text = Path(ROOT / f"docs/runbooks/{page}.md").read_text()
    return plain(text[text.index("**Fix first**") : text.index("<!-- rule: generated -->")])


@pytest.mark.parametrize("which", ACTIONS)
def test_first_step_of_a_finding_is_that_of_alert_and_runbook(which: str) -> None:
    page, action = ACTIONS[which]
    (alert,) = (alert for alert in ALERTS if alert.runbook == page)
    step = plain(step_of(action))

    assert step in fix_first(page)
    assert which.split(maxsplit=1)[0] in WITHOUT_ALERT or step in plain(alert.description)


def test_every_rule_is_compared() -> None:
    compared = {which.split()[0] for which in ACTIONS}

    assert {
        rule.name for rule in RULES if rule.action not in {"{repair}", "{repair} Doubt the results of what ran."}
    } <= compared


def _fired() -> list[tuple[str, str, str]]:
    """Return alert, step and text of every alert of the cases whose labels name a finding or a repair."""
    finding = {rule.name: rule.action for rule in RULES}
    advised = {action: what for action, (_, what) in RECOVERY.items()}
    repair = {action: what for action, (_, _, what) in REPAIRS.items()}
    found: list[tuple[str, str, str]] = []
    for case, alerts in yaml.safe_load(EXPECTED.read_text()).items():
        for each in alerts:
            labels = each["exp_labels"]
            action = finding.get(labels.get("finding")) or (repair | advised).get(labels.get("action"))
            if labels.get("fault") in finding and "{" not in finding[labels["fault"]]:
                action = finding[labels["fault"]]
            if action and "{" not in action:  # of `lost`, `xid` and the like the label `action` says it
                found.append((case, step_of(action), each["exp_annotations"]["description"]))
    return found


@pytest.mark.parametrize(("case", "step", "text"), _fired())
def test_alert_that_fires_names_the_step_of_its_finding(case: str, step: str, text: str) -> None:
    assert plain(step) in plain(text), case


def test_cases_fire_most_steps() -> None:
    steps = {re.sub(r"\s+", " ", step) for _, step, _ in _fired()}

    assert len(steps) >= 12
