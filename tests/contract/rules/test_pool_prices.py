"""Two pools at two prices: rules record for teams and free GPUs what the accounting service charges: the truth."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from itertools import product
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
FREE = (4 * HOURS - 4 - 1 - 1.75 - 1) * 2.0 + 2 * 2 * 0.5 + 2 * 2 * 2.0
"""Of a node without a pool, and of two GPUs of one that is in the pool for two hours, and in several for two."""


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> tuple[Mapping[str, str], Mapping[str, float]]:
    """Samples of each minute as promtool reads them, and the cost by team as the service charges it."""
    folder = tmp_path_factory.mktemp("pools")
    nodes = {
        "n1": Node(folder / "n1.sqlite", JOBS, 0.0, all_gpus=GPUS),
        "n2": Node(folder / "n2.sqlite", (), 0.0, all_gpus=("GPU-8", "GPU-9"), pool="spot"),
    }
    values = defaultdict[str, dict[int, float]](dict)
    for minute, node in product(range(1, HOURS * 60 + 1), nodes.values()):
        node.cycles(minute * 60.0)
        if node is nodes["n2"]:  # after a restart the pool is not known for half an hour
            node.pool = None if 60 <= minute < 90 else "spot" if minute < 2 * 60 else ""
            if minute == 60:
                node.restart()
        for row in node.published:
            names = dict(zip(OWNER_COUNTER_LABELS, (*row.key, node.store_id, f"{row.since}"), strict=True))
            labels = ",".join(f'{name}="{value}"' for name, value in {"cluster": "c1", **names}.items() if value)
            values[f"gpu_owner_since_timestamp_seconds{{{labels}}}"][minute] = row.since
            for state, seconds in row.amount.states.items():
                values[f'gpu_owner_gpu_seconds_total{{{labels},state="{state}"}}'][minute] = seconds
    for node in nodes.values():
        node.restart()  # what waits for the next batch is written
        node.close()
    database = Database(folder / "service.sqlite")
    read = lambda name, after: {"node": name, **read_after(nodes[name].path, after, 1000)}  # noqa: E731
    collect(database, list(nodes), read, lambda: 0.0)
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
        # to 5 cents: the counters of the last ten seconds are not written yet
        cents.replace("0.01", "0.05").format(
            "state", recorded.format('cluster_state:gpu_owner_cost:increase{state="free"}')
        ): {"free": FREE},
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


def test_hour_of_a_workload_has_the_price_of_its_pool(tmp_path: Path) -> None:
    """A pool without a price of its own costs what the model costs elsewhere. A partition counts, not a pod's label."""
    groups = yaml.safe_load((RULES / "gpu-recording.yaml").read_text())["groups"]
    names = {"gpu:gpu_info:first", *(f"{level}_model:gpu_allocation_ratio:sum" for level in ("part", "workload"))}
    names |= {"workload:gpu_price_per_hour:sum"}
    rules = [rule for group in groups for rule in group["rules"] if rule["record"] in names]
    (tmp_path / "rules.json").write_text(json.dumps({"groups": [{"name": "price", "rules": rules}]}))
    price = 'gpu:price_per_hour{{cluster="c1",model="A100"{},currency="EUR"}}'
    given = {price.format(""): "2x9", price.format(',pool="spot"'): "0.5x9", price.format(',profile="1g.5gb"'): "7x9"}
    workloads = {
        "slurm:1": (4, 'partition="spot"', "", 4 * 0.5),
        "slurm:2": (3, 'partition="gpu"', ',label_pool="spot"', 3 * 2.0),
        "web/chat": (2, 'workload_pod="chat"', ',label_pool="spot"', 2 * 0.5),
        "web/batch": (1, 'workload_pod="batch"', ',label_pool="cheap"', 2.0),
        "web/other": (1, 'workload_pod="other"', "", 2.0),
    }
    for number, (name, (gpus, owner, more, _)) in enumerate(workloads.items()):
        labels = f'cluster="c1",instance="n{number}",workload="{name}",{owner}'
        given[f"gpu_workload_info{{{labels}{more}}}"] = "1x9"
        for gpu in range(gpus):
            device = f'gpu="{gpu}",uuid="GPU-{number}-{gpu}"'
            given[f'gpu_info{{cluster="c1",instance="n{number}",{device},model="A100"}}'] = "1x9"
            given[f"gpu_allocation_ratio{{{labels},{device}}}"] = "1x9"
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in given.items()],
        "promql_expr_test": [
            {
                "expr": "sum by (workload, currency) (workload:gpu_price_per_hour:sum)",
                "eval_time": "5m",
                "exp_samples": [
                    {"labels": f'{{workload="{name}",currency="EUR"}}', "value": cost}
                    for name, (*_, cost) in workloads.items()
                ],
            }
        ],
    }

    assert complaint({"rule_files": [str(tmp_path / "rules.json")], "tests": [test]}, tmp_path) == ""
