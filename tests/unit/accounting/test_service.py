"""The service holds what the nodes hold: once, whatever is sent twice, killed, or away for days."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from exporter.accounting.store import read_after, rows_after
from exporter.attribution.owner import Owner
from exporter.config.load import load
from exporter.config.option import ConfigError
from exporter.core.threads import Threads
from exporter.tools.report.accounting import collector, command
from exporter.tools.report.accounting.collector import NodeAccess, collect
from exporter.tools.report.accounting.database import Cursor, Database, SchedulerJob
from exporter.tools.report.accounting.prices import PriceRow, Prices
from exporter.web.app import ALLOCATIONS, App, Policy, Response, RouteHandlers
from exporter.web.auth import BasicAuth
from exporter.web.server import Server
from tests.unit.accounting.node import Job, Node, by_account
from tests.unit.report.test_failures import api
from tests.unit.report.test_fetch import BODY

T0 = 1_760_000_400.0
NODES = ("gpu01", "gpu02")
LATE: dict[str, Any] = {
    "seq": 1, "allocation": "77", "start": T0, "end": T0 + 60, "facts": {"owner": Owner("", "")}, "model": "A100",
    "profile": "", "hour": int(T0 // 3600), "until": T0 + 60, "used": 0.0, "joules": 0.0, "states": {"computing": 60.0},
}  # fmt: skip
HASH = "$2b$04$YM27EtVXYw3q6FyvZ8MwouIAEZB8ADmIXWPXbuPhVZa4I3mZXOczK"
"""Of `secret`."""


class Fleet:
    """Two nodes with known jobs; `ask` reads their stores as the web server does."""

    def __init__(self, folder: Path) -> None:
        draw = random.Random(5)  # noqa: S311 - a schedule
        self.jobs: dict[str, list[Job]] = {}
        for node in NODES:
            now, jobs = T0 + 5, self.jobs.setdefault(node, [])
            while now < T0 + 3000:
                end = now + draw.uniform(5, 300)
                jobs.append(Job(f"{node[-1]}{len(jobs)}", now, end, account=draw.choice(("vision", "speech"))))
                now = end + draw.uniform(1, 30)
        self.nodes = {node: Node(folder / f"{node}.sqlite", self.jobs[node], T0) for node in NODES}

    def run(self, until: float) -> None:
        for node in self.nodes.values():
            node.cycles(until)

    def ask(self, target: str, after: int) -> Mapping[str, Any]:
        return {"node": target, **read_after(self.nodes[target].path, after, 7)}

    def truth(self) -> Mapping[str, float]:
        return by_account(job for jobs in self.jobs.values() for job in jobs)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    found = Fleet(tmp_path)
    yield found
    for node in found.nodes.values():
        node.close()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = Database(tmp_path / "service.sqlite")
    yield found
    found.close()


def accounts(database: Database) -> Mapping[str, float]:
    return {each.name: each.seconds for each in database.totals("account", T0, T0 + 7200) if each.name}


def test_rows_of_all_nodes_arrive_once(fleet: Fleet, database: Database) -> None:
    """It reads while jobs run, and twice in a row."""
    for until in range(300, 3601, 300):
        fleet.run(T0 + until)
        for _ in range(2):
            assert collect(database, NODES, fleet.ask, lambda: T0) == {}

    assert accounts(database) == pytest.approx(fleet.truth(), rel=1e-6)


def test_service_that_is_killed_goes_on_at_its_cursor(fleet: Fleet, tmp_path: Path) -> None:
    """Each round is cut off somewhere: what was committed stays, the rest is sent again."""
    draw = random.Random(7)  # noqa: S311 - when it is killed

    def dies(target: str, after: int) -> Mapping[str, Any]:
        if draw.random() < 0.3:
            raise KeyboardInterrupt
        return fleet.ask(target, after)

    fleet.run(T0 + 3600)
    kills = 0
    while True:
        database = Database(tmp_path / "service.sqlite")
        try:
            collect(database, NODES, dies, lambda: T0)
            found = accounts(database)
            break
        except KeyboardInterrupt:
            kills += 1
        finally:
            database.close()

    assert kills > 3
    assert found == pytest.approx(fleet.truth(), rel=1e-6)


def test_node_that_is_away_is_named_and_read_later(fleet: Fleet, database: Database) -> None:
    def away(target: str, after: int) -> Mapping[str, Any]:
        if target == "gpu02":
            raise OSError("no route to host")
        return fleet.ask(target, after)

    fleet.run(T0 + 3600)
    errors = collect(database, NODES, away, lambda: T0)
    collect(database, NODES, fleet.ask, lambda: T0)

    assert errors == {"gpu02": "no route to host"}
    assert accounts(database) == pytest.approx(fleet.truth(), rel=1e-6)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        [],
        {"node": "a", "store": "s", "more": False, "rows": [{**LATE, "states": []}]},
        {"node": "a", "store": "s", "more": False, "rows": [{**LATE, "states": {"computing": float("nan")}}]},
        {"node": "a", "store": "s", "more": False, "rows": [{**LATE, "hour": 10**30}]},
        {"node": "a", "store": "s", "more": False, "rows": [{**LATE, "model": None}]},
        {"node": "a", "store": "s", "more": False, "rows": [LATE, {**LATE, "profile": []}]},
    ],
)
def test_answer_of_something_else_stops_no_other_node(answer: Any, fleet: Fleet, database: Database) -> None:
    """Nothing of it is kept, and the node is named."""
    fleet.run(T0 + 600)

    def ask(target: str, after: int) -> Mapping[str, Any]:
        return answer if target == "gpu09" else fleet.ask(target, after)

    errors = collect(database, ("gpu09", *NODES), ask, lambda: T0)

    assert list(errors) == ["gpu09"]
    assert errors["gpu09"].startswith("not the answer of an exporter: ")
    assert {each.name for each in database.totals("node", T0, T0 + 3600)} == set(NODES)


def test_full_disk_of_the_service_is_named_and_stops_no_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows need 4 MB, and the file may not grow."""

    class Full(Database):
        def __init__(self, path: Path, cluster: str) -> None:
            super().__init__(path, cluster)
            self._database.execute("PRAGMA max_page_count = 1")  # raised to what it has

    rows = [
        {**LATE, "allocation": f"{number}", "facts": {"owner": Owner("", ""), "x": "x" * 4096}}
        for number in range(1000)
    ]

    def ask(*_: object) -> Mapping[str, Any]:
        return {"node": "a", "store": "s", "more": False, "rows": rows}

    monkeypatch.setattr(command, "Database", Full)
    monkeypatch.setattr(NodeAccess, "ask", ask)
    options = ("--nodes", "http://127.0.0.1:1", "--interval", "0", "--state.dir", str(tmp_path))

    assert command.run(load(command.AccountingConfig, options, {})) == 1
    assert "http://127.0.0.1:1 is not read: database or disk is full" in capsys.readouterr().err


def test_database_that_fails_in_a_round_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: Database) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(Database, "sum_hours", fails)
    options = ("--nodes", "http://127.0.0.1:1", "--interval", "0", "--state.dir", str(tmp_path))

    assert command.run(load(command.AccountingConfig, options, {})) == 1
    assert f"{tmp_path}/accounting.sqlite is not read: disk I/O error" in capsys.readouterr().err


def test_node_that_lost_its_disk_keeps_what_the_service_has(fleet: Fleet, database: Database) -> None:
    fleet.run(T0 + 1800)
    collect(database, NODES, fleet.ask, lambda: T0)
    node = fleet.nodes["gpu01"]
    for path in node.path.parent.glob("gpu01.sqlite*"):
        path.unlink()
    node.kill()
    fleet.run(T0 + 3600)

    collect(database, NODES, fleet.ask, lambda: T0)

    assert sum(accounts(database).values()) == pytest.approx(sum(fleet.truth().values()), rel=0.01)


def test_node_whose_disk_is_restored_from_a_backup_is_read_on(tmp_path: Path, database: Database) -> None:
    """The store has its id, and lower numbers than those that were read."""
    jobs = [Job("1", T0 + 5, T0 + 300), Job("2", T0 + 1000, T0 + 1005)]
    node = Node(tmp_path / "gpu01.sqlite", jobs, T0)

    def ask(target: str, after: int) -> Mapping[str, Any]:
        return {"node": target, **read_after(node.path, after, 1000)}

    with contextlib.closing(node):
        node.cycles(T0 + 20)
        with (
            contextlib.closing(sqlite3.connect(node.path)) as live,
            contextlib.closing(sqlite3.connect(tmp_path / "backup")) as backup,
        ):
            live.backup(backup)
        node.cycles(T0 + 900)
        collect(database, ["gpu01"], ask, lambda: T0)
        node.close()
        for path in tmp_path.glob("gpu01.sqlite*"):
            path.unlink()
        (tmp_path / "backup").rename(node.path)
        node.kill()
        node.cycles(T0 + 1020)

        collect(database, ["gpu01"], ask, lambda: T0)

    assert accounts(database) == {"vision": pytest.approx(295.0 + 5.0, abs=1.0)}


def test_end_after_the_clock_was_set_back_is_read(tmp_path: Path, database: Database) -> None:
    """Within an hour a row reaches as far in time as before, and goes on to grow."""
    node = Node(tmp_path / "gpu01.sqlite", [Job("1", T0 + 5, T0 + 1e6, reports_start=False)], T0)

    def ask(target: str, after: int) -> Mapping[str, Any]:
        return {"node": target, **read_after(node.path, after, 1000)}

    with contextlib.closing(node):
        node.cycles(T0 + 605)
        collect(database, ["gpu01"], ask, lambda: T0)
        node.set_clock_back(500)
        node.cycles(T0 + 305)
        node.restart()

        collect(database, ["gpu01"], ask, lambda: T0)

    assert accounts(database) == {"vision": pytest.approx(600.0 + 200.0, abs=1.0)}


def test_scheduler_adds_what_nodes_never_saw_and_takes_nothing_away(fleet: Fleet, database: Database) -> None:
    fleet.run(T0 + 3600)
    collect(database, NODES, fleet.ask, lambda: T0)
    seen = fleet.jobs["gpu01"][0]
    jobs = [
        SchedulerJob("999", T0 + 3590.0, T0 + 3690.0, 2.0, "eve", "robots"),
        SchedulerJob(seen.id, seen.start, seen.end, 1.0),
        SchedulerJob(fleet.jobs["gpu01"][1].id, fleet.jobs["gpu01"][1].start, fleet.jobs["gpu01"][1].end - 2, 0.5),
    ]

    first, second = database.compare(jobs, 0.01), database.compare(jobs, 0.01)

    assert [each.job for each in first] == ["999", fleet.jobs["gpu01"][1].id]
    assert [each.job for each in second] == [fleet.jobs["gpu01"][1].id]
    assert database.job("999", T0, T0 + 7200).states == {"unobserved": pytest.approx(200.0)}
    assert accounts(database)["robots"] == pytest.approx(200.0)


def test_job_is_counted_once_when_its_node_is_read_after_the_comparison(fleet: Fleet, database: Database) -> None:
    """The node could not be read for days: the scheduler's time was added for its jobs."""
    fleet.run(T0 + 3600)
    job = fleet.jobs["gpu01"][0]
    lost = SchedulerJob(job.id, job.start, job.end + 100, 1.0, "ada", job.account)
    database.compare([lost], 0.01)

    for _ in range(2):
        collect(database, NODES, fleet.ask, lambda: T0)

    assert database.job(job.id, T0, T0 + 7200).seconds == pytest.approx(job.gpu_seconds + 100)


def test_sums_of_hours_change_nothing(fleet: Fleet, database: Database) -> None:
    """Rows that come later, and an owner that is learnt later, are in them."""

    def totals() -> list[object]:
        return [database.totals(by, T0, T0 + 7200) for by in ("team", "user", "model")]

    fleet.run(T0 + 1800)
    collect(database, NODES, fleet.ask, lambda: T0)
    database.sum_hours()
    fleet.run(T0 + 3600)
    collect(database, NODES, fleet.ask, lambda: T0)
    owner = Owner("slurm:77", "slurm", slurm_job="77")
    late = {**LATE, "facts": {"owner": owner}}, {**LATE, "facts": {"owner": owner._replace(account="robots")}}
    for row in late:
        database.add("gpu09", "gpu09", Cursor("s", 1), [row], T0)
        before = totals()
        database.sum_hours()
        assert totals() == before

    assert accounts(database)["robots"] == 60


def test_pool_that_is_learnt_an_hour_late_is_that_of_the_whole_job(database: Database) -> None:
    """Its team pays what its jobs cost."""
    owner = Owner("slurm:77", "slurm", slurm_job="77", account="robots")
    first = {**LATE, "facts": {"owner": owner}}
    second = {**LATE, "seq": 2, "facts": {"owner": owner._replace(partition="spot")}, "hour": LATE["hour"] + 1}
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
    old.add("a", "a", Cursor("s", 1), [{**LATE, "facts": {"owner": owner, "details": {"label_pool": "spot"}}}], T0)
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
        old.add("a", "west/a", Cursor("s", 1), [LATE], T0)
        old.sum_hours()
        old.forget(T0 + 3601)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript("DROP VIEW owned; DROP VIEW allocated; PRAGMA user_version = 3")

    for _ in range(2):
        with contextlib.closing(Database(path)) as new:
            assert [(each.name, each.seconds) for each in new.totals("cluster", T0, T0 + 3600)] == [("west", 60.0)]


def test_sums_outlive_the_rows_that_are_forgotten(fleet: Fleet, database: Database) -> None:
    fleet.run(T0 + 3600)
    collect(database, NODES, fleet.ask, lambda: T0)
    database.sum_hours()
    before = accounts(database)

    database.forget(T0 + 1800)  # in the middle of the hour: a late row adds it up anew
    database.add("gpu09", "gpu09", Cursor("s", 1), [LATE], T0)
    database.sum_hours()
    assert accounts(database) == before

    database.forget(T0 + 3601)
    assert accounts(database) == before
    assert database.totals("job", T0, T0 + 3600) == []


def test_retention_of_the_service_is_longer_than_that_of_the_nodes(tmp_path: Path) -> None:
    options = ("--nodes", "http://127.0.0.1:1", "--interval", "0", "--state.dir", str(tmp_path), "--retention", "7d")

    with pytest.raises(ConfigError, match="--retention: expected more than 7d"):
        command.run(load(command.AccountingConfig, options, {}))


@pytest.mark.parametrize("node", ["gpu01:9836", "http://gpu01:99999", "http://[::1", "http://", "west=gpu01", "west="])
def test_node_that_is_no_url_is_refused_at_the_start(node: str, tmp_path: Path) -> None:
    options = ("--nodes", f"http://gpu02:9836,{node}", "--interval", "0", "--state.dir", str(tmp_path))

    with pytest.raises(ConfigError) as refused:
        command.run(load(command.AccountingConfig, options, {}))

    assert str(refused.value) == f"--nodes: expected [CLUSTER=]http://HOST or https://HOST, got {node!r}"


def test_password_without_its_user_is_refused_at_the_start(tmp_path: Path) -> None:
    """It would be sent to nobody."""
    (tmp_path / "password").write_text("secret")
    options = ("--nodes", "http://127.0.0.1:1", "--interval", "0", "--state.dir", str(tmp_path))

    with pytest.raises(ConfigError, match=r"^--password-file: expected with --username$"):
        command.run(load(command.AccountingConfig, (*options, "--password-file", str(tmp_path / "password")), {}))


def test_password_in_a_url_is_not_logged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--nodes", "west=http://ada:secret@127.0.0.1:1", "--interval", "0", "--state.dir", str(tmp_path))
    command.run(load(command.AccountingConfig, options, {}))

    logged = capsys.readouterr().err
    assert "west=http://127.0.0.1:1 is not read" in logged
    assert "secret" not in logged


def test_total_names_the_nodes_without_data(database: Database) -> None:
    """Hours of which only the scheduler knows, or that the exporter did not see, have no data."""
    hour = int(T0 // 3600)
    for node, number, state in (("a", 0, "free"), ("a", 1, "unobserved"), ("a", 3, "computing"), ("b", 2, "free")):
        row = {**LATE, "hour": hour + number, "allocation": f"{number}", "states": {state: 3600.0}}
        database.add(node, node, Cursor("s", 1), [row], T0)

    assert database.hours_missing(T0 - 86400, T0 + 86400) == {"a": 2, "b": 1}
    assert database.hours_covered(T0 - 86400, T0 + 86400) == 3


def test_total_names_a_node_that_was_down_all_the_time(database: Database) -> None:
    """Down since yesterday. One that is down for more than a month is gone."""
    hour = int(T0 // 3600)
    for node, hours in (("up", range(-900, 24)), ("down", range(-30, -24)), ("gone", range(-900, -800))):
        rows = [{**LATE, "hour": hour + each, "allocation": f"{each}"} for each in hours]
        database.add(node, node, Cursor("s", 1), rows, T0)

    assert database.hours_missing(T0, T0 + 86400) == {"down": 24}
    assert database.hours_missing(T0 + 86400, T0 + 2 * 86400) == {}


@pytest.fixture
def serve(fleet: Fleet) -> Iterator[Callable[[Policy], str]]:
    servers: list[Server] = []

    def start(policy: Policy) -> str:
        path = fleet.nodes["gpu01"].path
        pages = RouteHandlers(lambda _: ("", b""), str, str, allocations=lambda after: rows_after(path, "gpu01", after))
        servers.append(Server(App(pages, "/metrics", lambda: policy), ("127.0.0.1", 0), 2, threads=Threads()))
        servers[-1].start()
        return f"http://127.0.0.1:{servers[-1].port}"

    yield start
    for server in servers:
        server.stop()


def test_rows_are_served_to_who_has_the_password(
    fleet: Fleet, serve: Callable[[Policy], str], database: Database
) -> None:
    fleet.run(T0 + 3600)
    url = serve(Policy(BasicAuth({"prometheus": HASH})))

    refused = collect(database, [url], NodeAccess("prometheus", "wrong").ask, lambda: T0)
    collect(database, [url], NodeAccess("prometheus", "secret").ask, lambda: T0)

    assert "401" in refused[url]
    assert accounts(database) == pytest.approx(by_account(fleet.jobs["gpu01"]), rel=1e-6)


def test_password_is_sent_in_utf_8(serve: Callable[[Policy], str], database: Database) -> None:
    url = serve(Policy(BasicAuth({"jürgen": bcrypt.hashpw("schlüssel".encode(), bcrypt.gensalt(4)).decode()})))

    assert collect(database, [url], NodeAccess("jürgen", "schlüssel").ask, lambda: T0) == {}


def test_node_whose_answer_never_ends_is_left_out_of_the_round(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "_TIMEOUT_SECONDS", 0.3)

    with api(BODY) as url:
        assert collect(database, [url], NodeAccess().ask, lambda: T0) == {url: f"{url} does not answer within 0.3 s"}


def test_rows_are_not_served_without_passwords() -> None:
    pages = RouteHandlers(lambda _: ("", b""), str, str, allocations=lambda _: b"{}")

    found = App(pages, "/metrics").respond({"REQUEST_METHOD": "GET", "PATH_INFO": ALLOCATIONS})

    assert isinstance(found, Response)
    assert found.status == "403 Forbidden"


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_metrics_are_served_at_every_address(address: str) -> None:
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as free:
        port = free.getsockname()[1]

    command._serve_metrics("", port)  # pyright: ignore[reportPrivateUsage]

    with socket.create_connection((address, port), timeout=5) as connection:
        connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert b"\ngpu_accounting_unread_nodes " in answer


def test_cursor_moves_with_its_rows(database: Database) -> None:
    database.add("n", "n", Cursor("s", 7), [], T0)

    assert database.cursor("n") == Cursor("s", 7)
    assert json.dumps(database.cursor("other").seq) == "0"


def test_difference_to_the_scheduler_is_a_metric_of_the_service(tmp_path: Path) -> None:
    """Of two jobs of an hour with one GPU each, the nodes saw one."""
    end = int(time.time()) - 7200
    sacct = tmp_path / "sacct"
    job = f"{{0}}|{{0}}|ada|vision|gpu|q|c1|COMPLETED|0:0|{end - 3600}|{end}|3600|600|1|8|01:00:00||gres/gpu=1|"
    sacct.write_text("#!/bin/sh\n" + "".join(f"echo '{job.format(each)}'\n" for each in (1, 2)))
    sacct.chmod(0o755)
    database = Database(tmp_path / command.DATABASE)
    owner = Owner("slurm:1", "slurm", slurm_job="1", user="ada", account="vision")
    hour = (end - 3600) // 3600
    seen = {
        "seq": 1, "allocation": "1", "start": end - 3600.0, "end": float(end), "facts": {"owner": owner}, "hour": hour,
        "model": "A100", "profile": "", "until": float(end), "used": 0.0, "joules": 0.0,
        "states": {"computing": 3600.0},
    }  # fmt: skip
    database.add("n1", "n1", Cursor("s", 1), [seen], 0.0)
    database.close()
    options = ("--nodes", "http://127.0.0.1:1", "--interval", "0", "--state.dir", str(tmp_path))

    status = command.run(load(command.AccountingConfig, (*options, "--slurm.sacct", str(sacct)), {}))

    metrics = ("unread_nodes", "scheduler_difference_ratio")
    values = [command._REGISTRY.get_sample_value(f"gpu_accounting_{name}") for name in metrics]  # pyright: ignore[reportPrivateUsage]
    assert (status, values) == (1, [1.0, 0.5])


@pytest.mark.parametrize(("hours", "seconds"), [(24, 24 * 3600.0), (23, 0.0)])
def test_gpu_time_of_a_whole_day_is_a_metric_of_the_service(tmp_path: Path, hours: int, seconds: float) -> None:
    now = int(time.time()) // 3600
    database = Database(tmp_path / command.DATABASE)
    rows = [
        {**LATE, "allocation": f"{back}", "hour": now - back, "states": {"free": 3600.0}} for back in range(hours + 1)
    ]
    database.add("n1", "n1", Cursor("s", 1), rows, 0.0)
    database.close()
    options = ("--nodes", "http://127.0.0.1:1", "--interval", "0", "--state.dir", str(tmp_path))

    command.run(load(command.AccountingConfig, options, {}))

    assert command._REGISTRY.get_sample_value("gpu_accounting_day_gpu_seconds") == seconds  # pyright: ignore[reportPrivateUsage]


def test_price_file_with_an_error_is_refused_at_the_start(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("prices: none\n")
    options = ("--nodes", "http://127.0.0.1:1", "--interval", "0", "--state.dir", str(tmp_path))

    with pytest.raises(ConfigError, match=str(prices)):
        command.run(load(command.AccountingConfig, (*options, "--prices.file", str(prices)), {}))


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
