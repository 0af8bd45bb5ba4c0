"""The templates of the example: what a message says, by the real program that renders it."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.contract.alertmanager.example import EXAMPLE
from tests.stack import program


def told(summary: str, status: str, of: str = "1") -> dict[str, Any]:
    ended = "0001-01-01T00:00:00Z" if status == "firing" else "2026-11-21T11:00:00Z"
    return {
        "status": status,
        "labels": {"workload": "ml/train-0"},
        "annotations": {
            "summary": summary,
            "description": f"{summary}.",
            "runbook_url": f"http://r{of}",
            "dashboard": "/d/gpu-node?var-instance=n1%3A9836",
            "report": "gpu-exporter report 7",
        },
        "startsAt": "2026-11-21T10:00:00Z",
        "endsAt": ended,
    }


def render(name: str, *alerts: dict[str, Any], status: str = "firing") -> str:
    data = {
        "status": status,
        "alerts": alerts,
        "commonLabels": {"workload": "ml/train-0", "alertname": "GpuLost"},
        "groupLabels": {"cluster": "c1", "user": "ada b"},
        "externalURL": "http://alerts.example.org",
    }
    text = f'{{{{ template "{name}" . }}}}'
    command = [program("amtool"), "template", "render", f"--template.glob={EXAMPLE / 'gpu.tmpl'}"]
    command += [f"--template.text={text}", "--template.data=/dev/stdin"]
    done = subprocess.run(command, input=json.dumps(data), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


SILENCE = "http://alerts.example.org/#/silences/new?filter=%7Balertname%3D%22GpuLost%22%2Ccluster%3D%22c1%22%2Cuser%3D%22ada+b%22%7D"


@pytest.mark.parametrize("template", ["gpu.text", "gpu.text.short", "gpu.slack.text", "gpu.html"])
def test_body_of_every_receiver_has_all_links(template: str) -> None:
    body = render(template, told("S", "firing"))

    assert "http://r1" in body
    assert "/d/gpu-node?var-instance=n1%3A9836&from=1795251600000&to=now" in body
    assert "gpu-exporter report 7" in body
    assert SILENCE in body


def test_dashboard_is_at_the_grafana_of_the_templates_whatever_the_rules_name() -> None:
    alert = told("S", "firing")
    alert["annotations"]["dashboard"] = "https://dash.example.org/g/d/gpu-node?var-instance=n1"

    assert "Dashboard: https://grafana.example.org/d/gpu-node?var-instance=n1&from=" in render("gpu.text", alert)


def test_template_is_readable() -> None:
    two = [told("S", "firing", "")] * 2

    assert render("gpu.title", *two) == "S (and 1 more)"
    # 2026-11-21 09:00 UTC, an hour before the alerts began, is 1795251600 in Unix seconds.
    dashboard = "https://grafana.example.org/d/gpu-node?var-instance=n1%3A9836&from=1795251600000&to=now"
    each = [
        "S.",
        "Runbook: http://r",
        f"Dashboard: {dashboard}",
        "Report: gpu-exporter report 7",
        "Since 2026-11-21 10:00 UTC",
        "",
    ]
    assert render("gpu.owner.text", *two).splitlines() == [
        *each,
        *each,
        f"Silence: {SILENCE}",
        "You get this because the GPUs are allocated to ml/train-0.",
    ]


def test_what_fires_comes_before_what_has_ended() -> None:
    mixed = [*(told(f"old {n}", "resolved") for n in range(30)), told("new", "firing", "2")]

    assert render("gpu.title", *mixed) == render("gpu.title.short", *mixed) == "new"
    assert render("gpu.link", *mixed) == "http://r2"
    assert render("gpu.text.short", *mixed).startswith("new.")
    assert render("gpu.html", *mixed).index("<b>new</b></p>") < render("gpu.html", *mixed).index("<b>old 0</b></p>")
    assert "old 19<" in render("gpu.html", *mixed)
    assert "old 20<" not in render("gpu.html", *mixed)


def test_what_has_ended_is_named_where_nothing_fires() -> None:
    over = [told("old", "resolved"), told("older", "resolved")]

    assert render("gpu.title", *over, status="resolved") == "Resolved: old (and 1 more)"
    assert render("gpu.title.short", *over, status="resolved") == "Resolved: old (+1)"
    assert render("gpu.link", *over, status="resolved") == "http://r1"
    assert render("gpu.text.short", *over, status="resolved").startswith("old.")


def test_mail_tells_how_many_more_fire() -> None:
    assert "10 more fire: see Alertmanager." in render("gpu.html", *(told(str(n), "firing") for n in range(30)))
