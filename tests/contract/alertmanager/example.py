"""The example configuration with every receiver on this machine, and alerts as Prometheus posts them."""

from __future__ import annotations

import datetime as dt
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.stack import program

EXAMPLE = Path(__file__).resolve().parents[3] / "deploy/alertmanager"
CONFIG = EXAMPLE / "alertmanager.yaml"


def amtool(*arguments: str | Path) -> str:
    done = subprocess.run([program("amtool"), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def local(folder: Path, url: str, smtp: str = "127.0.0.1:9", wait: str = "0s") -> Path:
    """The example with its templates beside it, everything sent to `url` and `smtp`, and `wait` to gather."""
    config = yaml.safe_load(CONFIG.read_text())
    config["receivers"] += yaml.safe_load((EXAMPLE / "receivers.yaml").read_text())["receivers"]
    config["templates"] = [str(EXAMPLE / name) for name in ("gpu.tmpl", "owners.tmpl")]
    config["global"].pop("slack_api_url_file")
    config["global"] |= {"slack_api_url": f"{url}/chat", "smtp_smarthost": smtp, "smtp_require_tls": False}
    for route in (config["route"], *config["route"]["routes"]):
        route["group_wait"] = wait
    # The other receivers are tried with alerts that ask for them by name.
    config["route"]["routes"] += [
        {"matchers": [f'try="{name}"'], "receiver": name} for name in ("page-opsgenie", "ticket-slack", "ticket-teams")
    ]
    for entry in config["receivers"]:
        for webhook in entry.get("webhook_configs", ()):
            webhook["url"] = f"{url}/{entry['name']}"
        for pager in entry.get("pagerduty_configs", ()):
            del pager["routing_key_file"]
            pager |= {"routing_key": "k", "url": f"{url}/pagerduty"}
        for pager in entry.get("opsgenie_configs", ()):
            del pager["api_key_file"]
            pager |= {"api_key": "k", "api_url": f"{url}/opsgenie/"}
    path = folder / "alertmanager.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def alert(name: str, **labels: str) -> dict[str, Any]:
    texts = {"summary": f"{name} of {labels.get('workload', 'n1')}", "description": "D.", "runbook_url": "http://r"}
    return {
        "labels": {"alertname": name, **labels},
        "annotations": texts,
        "startsAt": dt.datetime.now(dt.timezone.utc).isoformat(),
    }


def oncall(name: str, severity: str, **labels: str) -> dict[str, Any]:
    return alert(name, severity=severity, audience="oncall", **labels)
