"""Rewrite expected.yaml from what fires now: `python -m tests.contract.rules.golden`. Then read the diff."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import yaml

from deploy.prometheus.render import ALERTS
from tests.contract.rules.cases import CASES
from tests.contract.rules.promtool import EXPECTED, Alerts, fired, key, run

NOTICE = (
    "# Labels and texts of every alert that must fire, by case. Written by `python -m tests.contract.rules.golden`.\n"
)


def without_case(alerts: Iterable[str]) -> list[str]:
    """One line for each alert for which no case says that it fires."""
    cases = {case.alert for case in CASES if case.fires}
    return [
        f"{name}: no case fires it: add one to tests/contract/rules/cases_*.py" for name in alerts if name not in cases
    ]


def main() -> int:
    lines = without_case(alert.name for alert in ALERTS)
    if lines:
        sys.stderr.writelines(f"{line}\n" for line in lines)
        return 2
    found: dict[str, Alerts] = {}
    for case in CASES:
        if case.fires:
            with tempfile.TemporaryDirectory() as folder:
                found[key(case)] = fired(run([case], {}, Path(folder)))
    EXPECTED.write_text(NOTICE + yaml.safe_dump(found, sort_keys=True, width=120, allow_unicode=True))
    silent = [name for name, alerts in found.items() if not alerts]
    sys.stderr.writelines(f"does not fire: {name}\n" for name in silent)
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
