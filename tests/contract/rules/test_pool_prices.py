"""Two pools at two prices: rules record for each team what the accounting service charges, and both are the truth."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from exporter.accounting.families import OWNER_COUNTER_LABELS
from exporter.accounting.store import read_after
from exporter.tools.report.accounting.collector import collect
from exporter.tools.report.accounting.database import Database
from exporter.tools.report.accounting.prices import PriceRow, Prices
from exporter.tools.report.accounting.prices import rules as price_rules
from tests.contract.rules.promtool import RULES, complaint
from tests.unit.accounting.node import MODEL, Job, Node

HOUR, HOURS = 3600.0, 4
PRICES = Prices("EUR", (PriceRow(MODEL, 0.5, pool="spot"), PriceRow(MODEL, 9.0, pool="spot"), PriceRow(MODEL, 2.0)))
"""The first row that fits counts, also among those of one pool."""
GPUS = tuple(f"GPU-{number}" for number in range(4))
JOBS = (
    Job("1", HOUR, 3 * HOUR, GPUS[:2], account="vision", partition="spot"),
    Job("2", HOUR, 2 * HOUR, GPUS[2:3], account="vision", partition="reserved"),
    Job("chat", HOUR + 900, 3 * HOUR, GPUS[3:], namespace="web", pod_labels=(("pool", "spot"),)),
    Job("web", 2 * HOUR, 3 * HOUR, GPUS[2:3], namespace="web"),
)
COST = {"vision": 2 * 2 * 0.5 + 1 * 2.0, "web": 1.75 * 0.5 + 1 * 2.0}
FREE = (4 * HOURS - 4 - 1 - 1.75 - 1) * 2.0


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> tuple[Mapping[str, str], Mapping[str, float]]:
    """Samples of each minute as promtool reads them, and the cost by team as the service charges it."""
    folder = tmp_path_factory.mktemp("pools")
    node, values = Node(folder / "node.sqlite", JOBS, 0.0, all_gpus=GPUS), defaultdict[str, dict[int, float]](dict)
    for minute in range(1, HOURS * 60 + 1):
        node.cycles(minute * 60.0)
        for row in node.published:
            names = dict(zip(OWNER_COUNTER_LABELS, (*row.key, node.store_id, f"{row.since}"), strict=True))
            labels = ",".join(f'{name}="{value}"' for name, value in {"cluster": "c1", **names}.items() if value)
            values[f"gpu_owner_since_timestamp_seconds{{{labels}}}"][minute] = row.since
            for state, seconds in row.amount.states.items():
                values[f'gpu_owner_gpu_seconds_total{{{labels},state="{state}"}}'][minute] = seconds
    node.restart()  # what waits for the next batch is written
    node.close()
    database = Database(folder / "service.sqlite")
    collect(database, ["n1"], lambda _, after: {"node": "n1", **read_after(node.path, after, 1000)}, lambda: 0.0)
    charged = defaultdict[str, float](float)
    for charge in database.charges("team", 0.0, (HOURS + 1) * HOUR, PRICES):
        charged[charge.name] += charge.hours * (charge.price or 0.0)
    database.close()
    samples = {
        name: " ".join(f"{found[each]}" if each in found else "_" for each in range(HOURS * 60 + 1))
        for name, found in values.items()
    }
    return samples, charged


def test_service_charges_each_pool_its_price(series: tuple[Mapping[str, str], Mapping[str, float]]) -> None:
    assert series[1] == pytest.approx({**COST, "": FREE}, abs=0.005)


def test_rules_record_each_pool_at_its_price(
    series: tuple[Mapping[str, str], Mapping[str, float]], tmp_path: Path
) -> None:
    groups = yaml.safe_load((RULES / "gpu-recording.yaml").read_text())["groups"]
    accounting = next(each for each in groups if each["name"] == "gpu-accounting")
    (prices,) = json.loads(price_rules(PRICES))["groups"]
    (tmp_path / "rules.json").write_text(json.dumps({"groups": [prices, accounting]}))
    recorded = f"sum_over_time({{}}[{HOURS + 1}h])"
    cents = "round(sum by ({}) ({}), 0.01)"
    expected = {
        cents.format("team", recorded.format("team:gpu_owner_cost:increase")): COST,
        cents.format("team", recorded.format('team_state:gpu_owner_cost:increase{team!=""}')): COST,
        cents.format("state", recorded.format('cluster_state:gpu_owner_cost:increase{state="free"}')): {"free": FREE},
        cents.format("account", recorded.format("account_state:gpu_owner_cost:increase")): {"vision": COST["vision"]},
    }
    document = {
        "rule_files": [str(tmp_path / "rules.json")],
        "evaluation_interval": "1m",
        "group_eval_order": [prices["name"], accounting["name"]],
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series[0].items()],
                "promql_expr_test": [
                    {
                        "expr": expr,
                        "eval_time": f"{HOURS * 60}m",
                        "exp_samples": [
                            {"labels": f'{{{expr.split("(")[2].split(")")[0]}="{name}"}}', "value": round(cost, 2)}
                            for name, cost in costs.items()
                        ],
                    }
                    for expr, costs in expected.items()
                ],
            }
        ],
    }

    assert complaint(document, tmp_path) == ""


def test_hour_of_a_workload_has_the_price_of_its_partition(tmp_path: Path) -> None:
    """A partition without a price of its own costs what the model costs elsewhere."""
    groups = yaml.safe_load((RULES / "gpu-recording.yaml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"] if rule["record"] == "workload:gpu_price_per_hour:sum"]
    (tmp_path / "rules.json").write_text(json.dumps({"groups": [{"name": "price", "rules": rules}]}))
    price = 'gpu:price_per_hour{{cluster="c1",model="A100"{},currency="EUR"}}'
    gpus = 'workload_model:gpu_allocation_ratio:sum{{cluster="c1",model="A100",workload="{}",partition="{}"}}'
    given = {
        price.format(""): "2x9",
        price.format(',pool="spot"'): "0.5x9",
        price.format(',profile="1g.5gb"'): "7x9",
        gpus.format("slurm:1", "spot"): "4x9",
        gpus.format("slurm:2", "gpu"): "3x9",
        gpus.format("pod", ""): "1x9",
    }
    costs = {"slurm:1": 4 * 0.5, "slurm:2": 3 * 2.0, "pod": 2.0}
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in given.items()],
        "promql_expr_test": [
            {
                "expr": "sum by (workload, currency) (workload:gpu_price_per_hour:sum)",
                "eval_time": "5m",
                "exp_samples": [
                    {"labels": f'{{workload="{name}",currency="EUR"}}', "value": cost} for name, cost in costs.items()
                ],
            }
        ],
    }

    assert complaint({"rule_files": [str(tmp_path / "rules.json")], "tests": [test]}, tmp_path) == ""
