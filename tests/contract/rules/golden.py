"""Rewrite expected.yaml from what fires now: `python -m tests.contract.rules.golden`. Then read the diff."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import yaml

from tests.contract.rules.cases import CASES
from tests.contract.rules.promtool import EXPECTED, Alerts, fired, key, run

NOTICE = (
    "# Labels and texts of every alert that must fire, by case. Written by `python -m tests.contract.rules.golden`.\n"
)


def main() -> int:
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
