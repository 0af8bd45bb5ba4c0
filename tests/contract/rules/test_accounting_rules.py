"""Levels of accounting hold what owners got. Each case is a trap in which another form of the rule was wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from exporter.accounting.families import OWNER_COUNTER_LABELS
from tests.contract.rules.promtool import RULES, complaint

NODE = 'cluster="c1",job="gpu-exporter",pod="x-a",instance="10.0.0.1:9836"'
ROLLED = 'cluster="c1",job="gpu-exporter",pod="x-b",instance="10.0.0.7:9836"'
TWICE = 'cluster="c1",job="again",instance="10.0.0.1:9836"'


def life(account: str, since: int, target: str = NODE, **labels: str) -> str:
    """Labels of one life of an account's counters; `since` is its birth."""
    own = {"account": account, "kind": "slurm", "model": "H100", "store": "s1", "since": str(since), **labels}
    assert own.keys() <= set(OWNER_COUNTER_LABELS)
    return ",".join((target, *(f'{name}="{value}"' for name, value in own.items())))


def counter(labels: str, values: str) -> Mapping[str, str]:
    """The counter, in two states that grow alike, and its birth wherever it has a value."""
    since = labels.split('since="')[1].split('"', maxsplit=1)[0]
    births = " ".join(
        each if each.startswith("_") else f"{since}x{each.rpartition('x')[2] if 'x' in each else 0}"
        for each in values.split()
    )
    return {
        f'gpu_owner_gpu_seconds_total{{{labels},state="computing"}}': values,
        f"gpu_owner_since_timestamp_seconds{{{labels}}}": births,
    }


CASES: dict[str, tuple[Mapping[str, str], float]] = {
    # `increase` gives nothing for the first sample: 60 of 7200 s were in it.
    "birth in the look-back": (counter(life("a", 180), "_x4 60+60x119 7200x600"), 7200),
    # `x - (x offset 1h or 0)` counts the 3600 s of the past again.
    "not scraped for five hours": (counter(life("a", 0), "0+60x60 _x299 21600x300"), 21600),
    # A reset is no guess: the second life is a series of its own, even where it grows above the first.
    "restart that lost the disk": (
        {
            **counter(life("a", 0), "0+60x53 _x600"),
            **counter(life("a", 3240, store="s2"), "_x54 40+60x66 4000x500"),
        },
        3180 + 4000,
    ),
    # The past of a counter that was born long before this Prometheus saw it is another's.
    "counter older than the reach": (counter(life("a", -93600), "90000+60x100 96000x500"), 6000),
    # With the labels of the target in the mark, a rollout counted the whole day once more.
    "rollout gives the pod another name": (
        {
            **counter(life("a", 0), "0+60x300 _x360"),
            **counter(life("a", 0, ROLLED), "_x301 18060+60x60 21660x290"),
        },
        21660,
    ),
    # Two jobs of one Prometheus scrape the same exporter.
    "scraped twice": (
        {**counter(life("a", 0), "0+60x60 3600x600"), **counter(life("a", 0, TWICE), "0+60x60 3600x600")},
        3600,
    ),
    # Born and gone between two evaluations: the node was scaled down at once.
    "node of ten minutes": (counter(life("a", 65 * 60), "_x65 60+60x9 _x600"), 600),
    # After a kill -9 the counters go on from the disk; what was shown before was on disk.
    "killed exporter": (counter(life("a", 0), "0+60x30 _ 1800 1860+60x29 3600x600"), 3600),
    # Who comes back after a day has a new life.
    "owner that comes back": (
        {**counter(life("a", 0), "0+60x60 _x600"), **counter(life("a", 200 * 60), "_x200 60+60x59 3600x400")},
        7200,
    ),
}


def _document(series: Mapping[str, str], rules: Path, expected: Mapping[str, float]) -> Mapping[str, object]:
    return {
        "rule_files": [str(rules)],
        "evaluation_interval": "1h",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [
                    {"expr": expr, "eval_time": "660m", "exp_samples": [{"labels": "{}", "value": value}]}
                    for expr, value in expected.items()
                ],
            }
        ],
    }


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    groups = yaml.safe_load((RULES / "gpu-recording.yaml").read_text())["groups"]
    path = tmp_path / "accounting.yaml"
    path.write_text(json.dumps({"groups": [group for group in groups if group["name"] == "gpu-accounting"]}))
    return path


@pytest.mark.parametrize("case", list(CASES))
def test_level_holds_what_the_owner_got(case: str, rules: Path, tmp_path: Path) -> None:
    series, seconds = CASES[case]

    levels = ("account", "team", "cluster")
    expected = {f"sum(sum_over_time({level}_state:gpu_owner_gpu_seconds:increase[11h]))": seconds for level in levels}

    assert complaint(_document(series, rules, expected), tmp_path) == ""


def test_prometheus_that_was_down_for_six_hours_catches_up(rules: Path, tmp_path: Path) -> None:
    """Between the evaluations at 0:30 and 7:00 nothing was scraped, recorded or evaluated."""
    labels = life("a", 0)
    recorded = labels.replace(f"{NODE},", 'cluster="c1",')
    series = {
        **counter(labels, "_x420 25200+60x60 28800x300"),
        f'store:gpu_owner_gpu_seconds:last{{{recorded},state="computing"}}': "0+60x30 _x630",
    }

    total = "sum(sum_over_time(account_state:gpu_owner_gpu_seconds:increase[11h]))"

    assert complaint(_document(series, rules, {total: 28800.0 - 1800.0}), tmp_path) == ""


def test_levels_are_teams_users_and_the_whole_cluster_by_model_and_state(rules: Path, tmp_path: Path) -> None:
    """The team is the account of Slurm, else the namespace; time without an owner is the cluster's alone."""
    series: dict[str, str] = {}
    for number, labels in enumerate(
        (
            life("physics", 0, user="bob"),
            life("", 0, kind="pod", workload_namespace="ml"),
            life("", 0, kind=""),
        ),
        1,
    ):
        series |= counter(labels, f"0+{60 * number}x60 {3600 * number}x600")
    hour = 3600.0
    window = "_state:gpu_owner_gpu_seconds:increase"
    expected = {
        f'sum(sum_over_time(team{window}{{team="physics", model="H100", state="computing"}}[11h]))': hour,
        f'sum(sum_over_time(team{window}{{team="ml"}}[11h]))': 2 * hour,
        f'sum(sum_over_time(user{window}{{user="bob"}}[11h]))': hour,
        f'sum(sum_over_time(namespace{window}{{workload_namespace="ml"}}[11h]))': 2 * hour,
        f"sum(sum_over_time(user{window}[11h]))": hour,
        f"sum(sum_over_time(cluster{window}[11h]))": 6 * hour,
    }

    assert complaint(_document(series, rules, expected), tmp_path) == ""


def test_cost_of_each_hour_is_at_the_price_of_that_hour(rules: Path, tmp_path: Path) -> None:
    """The price falls from 3 to 2 in the sixth of eleven hours. No price is recorded at the end of the last one.

    A MIG instance has its own, and a model may have none, or none after five hours: where no price is recorded at
    all, it has its last one.
    """
    series: dict[str, str] = {}
    for labels in (
        life("physics", 0),
        life("", 0, kind=""),
        life("slices", 0, profile="1g.10gb"),
        life("old", 0, model="P100"),
        life("lent", 0, profile="2g.20gb"),
    ):
        series |= counter(labels, "0+60x660")
    price = 'gpu:price_per_hour{{cluster="c1",model="H100"{},currency="EUR"}}'
    series |= {
        price.format(""): "3x329 2x300",
        price.format(',profile="1g.10gb"'): "4x630",
        price.format(',profile="2g.20gb"'): "7x320 _x300",
    }
    expected = {
        'round(sum(sum_over_time(team:gpu_owner_cost:increase{team="physics"}[11h])), 0.1)': 5 * 3 + 6 * 2,
        'round(sum(sum_over_time(account_state:gpu_owner_cost:increase{account="slices"}[11h])), 0.1)': 11 * 4.0,
        'round(sum(sum_over_time(cluster_state:gpu_owner_cost:increase{model="H100"}[11h])), 0.1)': 2 * 27.0 + 44 + 42,
        'round(sum(sum_over_time(team:gpu_owner_cost:increase{team="lent"}[10h] offset 1h)), 0.1)': 5 * 7.0,
        "count(sum_over_time(team:gpu_owner_cost:increase[11h]))": 3,
    }

    assert complaint(_document(series, rules, expected), tmp_path) == ""


def test_team_is_what_the_site_maps_the_account_or_namespace_to(rules: Path, tmp_path: Path) -> None:
    """Two accounts are one team. A third one of the team's name is the team as well."""
    series: dict[str, str] = {}
    for labels in (life("physics", 0), life("", 0, workload_namespace="cv"), life("vision", 0), life("bio", 0)):
        series |= counter(labels, "0+60x660")
    for owner in ("physics", "cv"):
        series[f'team:gpu_site_team:group{{team="{owner}",site_team="vision"}}'] = "1x660"
    total = "sum(sum_over_time(team:gpu_owner_gpu_seconds:increase{}[11h]))"
    whole = 11 * 3600.0
    expected = {
        total.format('{team="vision"}'): 3 * whole,
        total.format('{team="bio"}'): whole,
        total.format(""): 4 * whole,
    }

    assert complaint(_document(series, rules, expected), tmp_path) == ""


@pytest.mark.parametrize(("service", "difference"), [(96 * 3600.0, 0.0), (80 * 3600.0, 0.2)])
def test_recorded_totals_of_a_day_are_compared_with_the_service(
    service: float, difference: float, tmp_path: Path
) -> None:
    """Four GPUs, one of them free, for more than a day. A young installation is not compared."""
    groups = yaml.safe_load((RULES / "gpu-recording.yaml").read_text())["groups"]
    day = next(each for each in groups if each["name"] == "gpu-day")
    day["rules"] = [each for each in day["rules"] if each["record"] == "cluster:gpu_accounting_difference:ratio"]
    rules = tmp_path / "day.json"
    rules.write_text(json.dumps({"groups": [day]}))
    recorded = 'cluster_state:gpu_owner_gpu_seconds:increase{{cluster="{}",state="{}"}}'
    rows = {
        recorded.format("c1", "computing"): "10800x29",
        recorded.format("c1", "free"): "3600x29",
        recorded.format("young", "free"): "_x20 3600x9",
        'gpu_accounting_day_gpu_seconds{cluster="c1"}': f"{service}x29",
        'gpu_accounting_day_gpu_seconds{cluster="young"}': f"{service}x29",
    }
    test = {
        "interval": "1h",
        "input_series": [{"series": name, "values": values} for name, values in rows.items()],
        "promql_expr_test": [
            {
                "expr": "round(cluster:gpu_accounting_difference:ratio, 0.001)",
                "eval_time": "1741m",
                "exp_samples": [{"labels": '{cluster="c1"}', "value": difference}],
            }
        ],
    }
    document = {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [test]}

    assert complaint(document, tmp_path) == ""
