"""The service holds what the nodes hold: once, whatever is sent twice, killed, or away for days."""

from __future__ import annotations

import contextlib
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
from exporter.core.threads import Threads
from exporter.tools.report.accounting import command
from exporter.tools.report.accounting.collector import NodeAccess, collect
from exporter.tools.report.accounting.database import Cursor, Database, SchedulerJob
from exporter.web.app import ALLOCATIONS, App, Policy, Response, RouteHandlers
from exporter.web.auth import BasicAuth
from exporter.web.server import Server
from tests.unit.accounting.node import Job, Node, by_account
from tests.unit.accounting.rows import ROW, T0

NODES = ("gpu01", "gpu02")
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
    """A row reaches as far in time as before within an hour, and goes on to grow."""
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
    late = {**ROW, "facts": {"owner": owner}}, {**ROW, "facts": {"owner": owner._replace(account="robots")}}
    for row in late:
        database.add("gpu09", "gpu09", Cursor("s", 1), [row], T0)
        before = totals()
        database.sum_hours()
        assert totals() == before

    assert accounts(database)["robots"] == 60


def test_sums_outlive_the_rows_that_are_forgotten(fleet: Fleet, database: Database) -> None:
    fleet.run(T0 + 3600)
    collect(database, NODES, fleet.ask, lambda: T0)
    database.sum_hours()
    before = accounts(database)

    database.forget(T0 + 1800)  # in the middle of the hour: a late row adds it up anew
    database.add("gpu09", "gpu09", Cursor("s", 1), [ROW], T0)
    database.sum_hours()
    assert accounts(database) == before

    database.forget(T0 + 3601)
    assert accounts(database) == before
    assert database.totals("job", T0, T0 + 3600) == []


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
        {**ROW, "allocation": f"{back}", "hour": now - back, "states": {"free": 3600.0}} for back in range(hours + 1)
    ]
    database.add("n1", "n1", Cursor("s", 1), rows, 0.0)
    database.close()
    options = ("--nodes", "http://127.0.0.1:1", "--interval", "0", "--state.dir", str(tmp_path))

    command.run(load(command.AccountingConfig, options, {}))

    assert command._REGISTRY.get_sample_value("gpu_accounting_day_gpu_seconds") == seconds  # pyright: ignore[reportPrivateUsage]
