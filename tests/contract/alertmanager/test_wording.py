"""The templates of the example: what a message says, by the real program that renders it."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.contract.alertmanager.example import EXAMPLE
from tests.stack import program


def told(summary: str, status: str, of: str = "1") -> dict[str, Any]:
    ended = "0001-01-01T00:00:00Z" if status == "firing" else "2026-11-21T11:00:00Z"
    return {
        "status": status,
        "labels": {"workload": "ml/train-0"},
        "annotations": {"summary": summary, "description": f"{summary}.", "runbook_url": f"http://r{of}"},
        "startsAt": "2026-11-21T10:00:00Z",
        "endsAt": ended,
    }


def render(name: str, *alerts: dict[str, Any], status: str = "firing") -> str:
    data = {"status": status, "alerts": alerts, "commonLabels": {"workload": "ml/train-0"}}
    text = f'{{{{ template "{name}" . }}}}'
    command = [program("amtool"), "template", "render", f"--template.glob={EXAMPLE / 'gpu.tmpl'}"]
    command += [f"--template.text={text}", "--template.data=/dev/stdin"]
    done = subprocess.run(command, input=json.dumps(data), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_template_is_readable() -> None:
    two = [told("S", "firing", "")] * 2

    assert render("gpu.title", *two) == "S (and 1 more)"
    assert render("gpu.owner.text", *two).splitlines() == [
        "S.",
        "Runbook: http://r",
        "Since 2026-11-21 10:00 UTC",
        "",
        "S.",
        "Runbook: http://r",
        "Since 2026-11-21 10:00 UTC",
        "",
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
