"""How long Prometheus remembers that a node said it is in maintenance: while its exporter does not answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.rules.promtool import RULES, complaint

_NODE = 'cluster="c1",node="n1",instance="n1"'
_REMEMBERED = f"instance:gpu_node_maintenance:last{{{_NODE}}}"


def _scraped(values: str, job: str = "gpu-exporter", ends: str = " stale _x") -> dict[str, str]:
    """The exporter's own series, and `up` of its target, which has the node's name."""
    own = f'{_NODE},job="{job}"'
    return {f"up{{{own}}}": values, f"gpu_exporter_build_info{{{own}}}": values.replace(" 0x", ends)}


_SAYS = {f'gpu_node_maintenance{{{_NODE},job="gpu-exporter",source="slurm"}}': "1x10 stale"}
_UP_AGAIN = _scraped("1x10 0x10 1x40")


@pytest.mark.parametrize(
    ("series", "at", "remembered"),
    [
        pytest.param(_SAYS | _scraped("1x10 0x50"), 50, True, id="switched off"),
        pytest.param(_SAYS | _UP_AGAIN, 15, True, id="about to come back"),
        pytest.param(_SAYS | _UP_AGAIN, 40, False, id="back, and in service"),
        pytest.param(
            _SAYS | _UP_AGAIN | {f'up{{{_NODE},job="node-exporter"}}': "0x60"},
            40,
            False,
            id="back, and another exporter of the node is down",
        ),
        pytest.param(
            _SAYS | _UP_AGAIN | _scraped("_ 0x60", "also-gpu-exporter"), 40, False, id="back, and another job is down"
        ),
        pytest.param(
            _SAYS | _scraped("1x10 0x50", ends=" _x"),
            50,
            True,
            id="switched off while Prometheus restarted: nothing marks the end of its series",
        ),
    ],
)
def test_maintenance_is_remembered(*, series: dict[str, str], at: int, remembered: bool, tmp_path: Path) -> None:
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": "instance:gpu_node_maintenance:last",
                "eval_time": f"{at}m",
                "exp_samples": [{"labels": _REMEMBERED, "value": 1}] if remembered else [],
            }
        ],
    }

    rules = str(RULES / "gpu-recording.yaml")
    assert complaint({"rule_files": [rules], "evaluation_interval": "1m", "tests": [test]}, tmp_path) == ""
