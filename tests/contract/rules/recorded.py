"""Runs groups of the recording rules over series, and compares what they record."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.contract.rules.promtool import RULES, complaint

Expected = Mapping[str, Mapping[str, float]]
"""By rule: value by labels, to three decimals."""


def check(folder: Path, groups: Collection[str], series: Mapping[str, str], expected: Expected) -> None:
    """What the rules of these `groups` say after 20 minutes of `series`, which have a value each minute."""
    known = yaml.safe_load((RULES / "gpu-recording.yaml").read_text())["groups"]
    rules = folder / "rules.yaml"
    asked = [group for group in known if group["name"] in groups]
    rules.write_text(yaml.safe_dump({"groups": asked}))
    tests: list[dict[str, Any]] = [
        {
            "expr": f"round({record} * 1000) / 1000",
            "eval_time": "20m",
            "exp_samples": [{"labels": f"{{{labels}}}", "value": value} for labels, value in wanted.items()],
        }
        for record, wanted in expected.items()
    ]
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    document = {
        "rule_files": [str(rules)],
        "evaluation_interval": "1m",
        "group_eval_order": [group["name"] for group in asked],
        "tests": [{"interval": "1m", "input_series": inputs, "promql_expr_test": tests}],
    }

    assert complaint(document, folder) == ""
