"""The database of the service: what it adds up, what it lacks, and those of older services."""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
from pathlib import Path

from exporter.attribution.owner import Owner
from exporter.tools.report.accounting.database import Cursor, Database, SchedulerJob
from exporter.tools.report.accounting.prices import PriceRow, Prices
from tests.unit.accounting.rows import ROW, T0


def test_pool_that_is_learnt_an_hour_late_is_that_of_the_whole_job(database: Database) -> None:
    """Its team pays what its jobs cost."""
    owner = Owner("slurm:77", "slurm", slurm_job="77", account="robots")
    first = {**ROW, "facts": {"owner": owner}}
    second = {**ROW, "seq": 2, "facts": {"owner": owner._replace(partition="spot")}, "hour": ROW["hour"] + 1}
    for row in (first, second):
        database.add("gpu09", "gpu09", Cursor("s", 1), [row], T0)
        database.sum_hours()
    prices = Prices("EUR", (PriceRow("A100", 0.5, pool="spot"), PriceRow("A100", 2.0)))

    charges = {by: database.charges(by, T0, T0 + 7200, prices) for by in ("team", "job")}

    assert {by: [(each.price, each.hours) for each in found] for by, found in charges.items()} == {
        "team": [(0.5, 120 / 3600)],
        "job": [(0.5, 120 / 3600)],
    }


def test_database_of_an_older_service_goes_on(tmp_path: Path) -> None:
    """Its view of allocations had no pool of pods, and nothing was added up."""
    path, owner = tmp_path / "service.sqlite", Owner("web/Pod/x", "pod", namespace="web")
    old = Database(path)
    old.add("a", "a", Cursor("s", 1), [{**ROW, "facts": {"owner": owner, "details": {"label_pool": "spot"}}}], T0)
    old.close()
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript(
            "DROP VIEW owned; DROP VIEW allocated; DELETE FROM changed; DELETE FROM observed; PRAGMA user_version = 1;"
            "CREATE VIEW allocated AS SELECT 1 AS hour; CREATE VIEW owned AS SELECT hour FROM allocated;"
        )
    spot = Prices("EUR", (PriceRow("A100", 0.5, pool="spot"), PriceRow("", 2.0)))

    for _ in range(2):
        with contextlib.closing(Database(path)) as new:
            new.sum_hours()
            (charge,) = new.charges("team", T0 - 7200, T0 + 7200, spot)
            assert new.hours_covered(T0 - 7200, T0 + 7200) == 1
        assert (charge.name, charge.price, charge.hours) == ("web", 0.5, 60 / 3600)


def test_sums_of_a_database_whose_views_were_others_keep_their_cluster(tmp_path: Path) -> None:
    """Their rows are forgotten."""
    path = tmp_path / "service.sqlite"
    with contextlib.closing(Database(path)) as old:
        old.add("a", "west/a", Cursor("s", 1), [ROW], T0)
        old.sum_hours()
        old.forget(T0 + 3601)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript("DROP VIEW owned; DROP VIEW allocated; PRAGMA user_version = 3")

    for _ in range(2):
        with contextlib.closing(Database(path)) as new:
            assert [(each.name, each.seconds) for each in new.totals("cluster", T0, T0 + 3600)] == [("west", 60.0)]


def test_total_names_the_nodes_without_data(database: Database) -> None:
    """Hours of which only the scheduler knows, or that the exporter did not see, have no data."""
    hour = int(T0 // 3600)
    for node, number, state in (("a", 0, "free"), ("a", 1, "unobserved"), ("a", 3, "computing"), ("b", 2, "free")):
        row = {**ROW, "hour": hour + number, "allocation": f"{number}", "states": {state: 3600.0}}
        database.add(node, node, Cursor("s", 1), [row], T0)

    assert database.hours_missing(T0 - 86400, T0 + 86400) == {"a": 2, "b": 1}
    assert database.hours_covered(T0 - 86400, T0 + 86400) == 3


def test_total_names_a_node_that_was_down_all_the_time(database: Database) -> None:
    """Down since yesterday. One that is down for more than a month is gone."""
    hour = int(T0 // 3600)
    for node, hours in (("up", range(-900, 24)), ("down", range(-30, -24)), ("gone", range(-900, -800))):
        rows = [{**ROW, "hour": hour + each, "allocation": f"{each}"} for each in hours]
        database.add(node, node, Cursor("s", 1), rows, T0)

    assert database.hours_missing(T0, T0 + 86400) == {"down": 24}
    assert database.hours_missing(T0 + 86400, T0 + 2 * 86400) == {}


def test_cursor_moves_with_its_rows(database: Database) -> None:
    database.add("n", "n", Cursor("s", 7), [], T0)

    assert database.cursor("n") == Cursor("s", 7)
    assert json.dumps(database.cursor("other").seq) == "0"


def test_comparison_of_10_000_jobs_names_the_planted_ones_and_no_other(database: Database) -> None:
    """Slurm counts whole seconds; the nodes see the job's start a little later, and its end after the epilog."""
    draw = random.Random(46)  # noqa: S311 - the same jobs each time
    rows, jobs, planted = [], [], set[str]()
    for number in range(10_000):
        start, gpus = T0 + draw.uniform(0, 80_000), draw.choice((1, 1, 2, 4, 8))
        end = start + draw.choice((5, 60, 600, 7200)) * draw.uniform(1, 2)
        seconds = (end + draw.uniform(0, 1.0) - start - draw.uniform(0, 0.5)) * gpus
        if number % 100 == 0 and end - start > 600:
            planted.add(str(number))
            seconds *= draw.choice((0.95, 1.05))
        owner = Owner(f"slurm:{number}", "slurm", slurm_job=str(number))
        rows.append({
            "seq": number, "allocation": str(number), "start": start, "end": end, "facts": {"owner": list(owner)},
            "model": "", "profile": "", "hour": int(start // 3600), "used": 0.0, "joules": 0.0, "until": end,
            "states": {"computing": seconds},
        })  # fmt: skip
        jobs.append(SchedulerJob(str(number), float(int(start)), float(int(end)), float(gpus)))
    database.add("n", "n", Cursor("s", 1), rows, T0)

    assert {each.job for each in database.compare(jobs, 0.01)} == planted
