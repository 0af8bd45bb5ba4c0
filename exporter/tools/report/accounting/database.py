"""The database of the service. A row that is received twice is the same row; what was received is never lost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from exporter.accounting.model import HOUR_SECONDS
from exporter.accounting.tracker import hours_between
from exporter.attribution.owner import Owner
from exporter.tools.report.accounting.prices import Prices
from exporter.tools.report.accounting.schema import CLUSTER, StateSums, open_database

_SUM = """
DELETE FROM sums WHERE hour IN (SELECT hour FROM changed);
INSERT INTO sums SELECT cluster, hour, team, account, namespace, user, model, profile, pool,
    sum(seconds), sum(used), sum(joules), sum(began), add_states(states)
FROM allocated WHERE hour IN (SELECT hour FROM changed) GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9;
DELETE FROM changed;
"""
_OWN = f"(:cluster = '' OR {CLUSTER.format('')} IN ('', :cluster))"
_OF_ROWS = ("job", "node")
"""Groups that sums of hours do not have."""
_NAMES = {
    "team": "site_team(team)",
    "job": "CASE WHEN :cluster != '' OR '' IN (cluster, job) THEN job ELSE cluster || '/' || job END",
}
"""Names of groups, where they are more than the column."""
_SCHEDULER = "scheduler"
"""Node of the rows that only the scheduler knows of."""
GROUPS = ("team", "account", "namespace", "user", "job", "node", "model", "cluster")


@dataclass(frozen=True, slots=True)
class Cursor:
    """Position up to which a target has been read. Another `store` id is read from its first row."""

    store: str = ""
    seq: int = 0


@dataclass(frozen=True, slots=True)
class Total:
    """GPU seconds and joules of one group in a time."""

    name: str
    states: Mapping[str, float]
    used: float
    joules: float
    allocations: int
    """Allocations that began."""

    @property
    def seconds(self) -> float:
        return sum(self.states.values())


class Charge(NamedTuple):
    """GPU time of one group, model and price."""

    name: str
    model: str
    price: float | None
    """Price of one hour in the currency of the site; None if it has none."""
    states: Mapping[str, float]
    """GPU seconds by state."""
    used: float
    joules: float
    allocations: int
    """Allocations that began."""

    @property
    def hours(self) -> float:
        return sum(self.states.values()) / 3600

    def cost(self, states: Iterable[str]) -> float:
        """Return the cost of the hours in some states; 0 without a price."""
        return sum(self.states.get(state, 0.0) for state in states) / 3600 * (self.price or 0.0)


@dataclass(frozen=True, slots=True)
class JobUsage:
    """GPU seconds of one job by state, and when it had its GPUs."""

    states: Mapping[str, float] = field(default_factory=dict[str, float])
    user: str = ""
    account: str = ""
    start: float = 0.0
    end: float = 0.0
    instances: bool = False
    """True if it had MIG instances. To Slurm each is a GPU."""

    @property
    def seconds(self) -> float:
        return sum(self.states.values())


class SchedulerJob(NamedTuple):
    """A job of the scheduler's accounting."""

    id: str
    start: float
    end: float
    gpus: float
    user: str = ""
    account: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """A job for which the scheduler and the nodes differ; GPU seconds."""

    job: str
    scheduler: float
    nodes: float


_GONE_HOURS = 31 * 24
ROUNDING_SECONDS = 3.0
"""Difference of one job without a cause: Slurm counts whole seconds, and its start and end are before the hooks."""


class Database:
    """Methods raise sqlite3.Error. Each is one transaction."""

    def __init__(self, path: Path, cluster: str = "", *, reads: bool = False) -> None:
        """Nodes of other clusters are not read; empty reads all. Nodes without a cluster are of this one.

        One that only `reads` changes nothing: it may be a copy in a folder that nobody writes to.
        """
        self._cluster = cluster
        self._database = open_database(path, reads=reads)

    def close(self) -> None:
        self._database.close()

    def cursor(self, target: str) -> Cursor:
        row = self._database.execute("SELECT store, seq FROM cursors WHERE target = ?", (target,)).fetchone()
        return Cursor(*row) if row else Cursor()

    def add(self, target: str, node: str, cursor: Cursor, rows: Sequence[Mapping[str, Any]], now: float) -> None:
        """Add the rows of one answer, and move the cursor with them. The row that reaches further in time wins."""
        with self._database as database:
            database.execute("BEGIN IMMEDIATE")
            self._insert(node, rows)
            database.execute(
                "INSERT OR REPLACE INTO cursors VALUES (?, ?, ?, ?)", (target, cursor.store, cursor.seq, now)
            )
            self._replace_unobserved(rows)

    def totals(self, by: str, since: float, until: float, team: str = "") -> Sequence[Total]:
        """Return what each group got in whole hours, the largest first."""
        rows = self._database.execute(
            f"SELECT {by}, add_states(states), sum(used), sum(joules), sum(began) FROM {_source(by)}"  # noqa: S608
            " WHERE hour >= :since AND hour < :until AND (:team = '' OR team = :team)"
            " AND (:cluster = '' OR cluster IN ('', :cluster)) GROUP BY 1",
            self._span(since, until, team),
        )
        found = [Total(name, json.loads(states), *rest) for name, states, *rest in rows]
        return sorted(found, key=lambda each: (-each.seconds, each.name))

    def charges(self, by: str, since: float, until: float, prices: Prices, team: str = "") -> Sequence[Charge]:
        """Return the time of each group by model and price, each hour at the price of its time."""
        found: dict[tuple[str, str, float | None], list[Sequence[Any]]] = {}
        period = " + ".join(f"(hour >= {at / HOUR_SECONDS})" for at in (0.0, *prices.changes))
        self._database.create_function("site_team", 1, prices.site_team)
        rows = self._database.execute(
            f"SELECT {_NAMES.get(by, by)}, coalesce(nullif(cluster, ''), :cluster), model,"  # noqa: S608
            f" profile, pool, min(hour), add_states(states), sum(used), sum(joules), sum(began) FROM {_source(by)}"
            " WHERE hour >= :since AND hour < :until AND (:team = '' OR site_team(team) = :team)"
            f" AND (:cluster = '' OR cluster IN ('', :cluster)) GROUP BY 1, 2, 3, 4, 5, {period}",
            self._span(since, until, team),
        )
        for name, cluster, model, profile, pool, hour, *amounts in rows:
            price = prices.per_gpu_hour(model, profile, pool, hour * HOUR_SECONDS, cluster)
            key = (cluster if by == "cluster" else name, model, price)
            found.setdefault(key, []).append(amounts)
        return [
            Charge(*key, _added(states), *map(sum, rest))
            for key, each in found.items()
            for states, *rest in [zip(*each, strict=True)]
        ]

    def hours_covered(self, since: float, until: float) -> int:
        """Return the number of hours in which any node observed its GPUs."""
        (count,) = self._database.execute(
            f"SELECT count(DISTINCT hour) FROM observed WHERE hour >= :since AND hour < :until AND {_OWN}",  # noqa: S608
            self._span(since, until),
        ).fetchone()
        return int(count)

    def hours_missing(self, since: float, until: float) -> Mapping[str, int]:
        """Return by node the hours without an observation, from the node's first hour to the newest of all nodes.

        A node that was last seen over a month before is gone.
        """
        begin, end = int(since // HOUR_SECONDS), int(until // HOUR_SECONDS)
        rows = self._database.execute(
            "SELECT node, (SELECT min(hour) FROM observed WHERE node = o.node), sum(hour >= :since),"  # noqa: S608
            " (SELECT max(hour) + 1 FROM observed) FROM observed o"
            f" WHERE hour >= :since - {_GONE_HOURS} AND hour < :until AND {_OWN} GROUP BY 1",
            self._span(since, until),
        )
        missing = {node: min(end, last) - max(begin, first) - count for node, first, count, last in rows}
        found = [(node, hours) for node, hours in missing.items() if hours > 0]
        return dict(sorted(found, key=lambda each: -each[1]))

    def sum_hours(self) -> None:
        """Add up the hours that changed since, so that months of large fleets are read at once."""
        with self._database as database:
            database.executescript(f"BEGIN IMMEDIATE; {_SUM} COMMIT;")

    def job(self, job: str, since: float, until: float) -> JobUsage:
        """Return what one Slurm job got between two moments, over all its starts and nodes."""
        states, *rest = self._database.execute(
            "SELECT add_states(h.states), a.user, a.account, min(a.start),"  # noqa: S608
            " max(coalesce(a.\"end\", h.until)), max(h.profile != '')"
            " FROM hours h JOIN allocations a ON a.node = h.node AND a.id = h.allocation"
            ' WHERE a.job = :job AND a.start < :until AND coalesce(a."end", h.until) > :since AND '
            + _OWN.replace("node", "h.node"),
            {"job": job, "since": since, "until": until, "cluster": self._cluster},
        ).fetchone()
        return JobUsage(json.loads(states), *rest) if states and states != "{}" else JobUsage()

    def compare(self, jobs: Iterable[SchedulerJob], tolerance: float) -> Sequence[Difference]:
        """Compare with the scheduler's jobs, but those with MIG instances. What nodes lack is added as unobserved time.

        More than the scheduler reports is never added, nor taken away: it is a finding.
        """
        found: list[Difference] = []
        for job in jobs:
            expected = job.gpus * (job.end - job.start)
            usage = self.job(job.id, job.start - 1, job.end + 1)
            known = expected if usage.instances else usage.seconds
            if abs(known - expected) <= tolerance * expected + job.gpus * ROUNDING_SECONDS:
                continue
            found.append(Difference(job.id, expected, known))
            if known < expected:
                with self._database as database:
                    database.execute("BEGIN IMMEDIATE")
                    self._add_unobserved(job, expected - known)
        return found

    def forget(self, before: float) -> None:
        """Delete the whole hours before that, and allocations that ended earlier. Sums stay."""
        with self._database as database:
            database.execute("BEGIN IMMEDIATE")
            first = before // HOUR_SECONDS
            database.execute("DELETE FROM hours WHERE hour < ?", (first,))
            database.execute('DELETE FROM allocations WHERE "end" < ?', (first * HOUR_SECONDS,))

    @property
    def _scheduler(self) -> str:
        return f"{self._cluster}/{_SCHEDULER}" if self._cluster else _SCHEDULER

    def _span(self, since: float, until: float, team: str = "") -> Mapping[str, object]:
        """Return the parameters of a query over whole hours."""
        hours = {"since": since // HOUR_SECONDS, "until": until // HOUR_SECONDS}
        return hours | {"team": team, "cluster": self._cluster}

    def _insert(self, node: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self._database.executemany(
            "INSERT INTO allocations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
            ' "end" = excluded."end", user = excluded.user, account = excluded.account, team = excluded.team,'
            " facts = excluded.facts",
            [_allocation(node, row) for row in rows],
        )
        self._database.executemany(
            "INSERT INTO hours VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
            " until = excluded.until, seconds = excluded.seconds, used = excluded.used, joules = excluded.joules,"
            " states = excluded.states WHERE excluded.until >= hours.until",
            [_hour(node, row) for row in rows],
        )

    def _add_unobserved(self, job: SchedulerJob, seconds: float) -> None:
        row = self._database.execute(
            "SELECT a.facts, h.model FROM allocations a JOIN hours h ON a.node = h.node AND a.id = h.allocation"  # noqa: S608
            " WHERE a.job = :job AND a.node NOT IN ('scheduler', :scheduler) AND "
            + _OWN.replace("node", "a.node")
            + " ORDER BY a.start DESC LIMIT 1",
            {"job": job.id, "scheduler": self._scheduler, "cluster": self._cluster},
        ).fetchone()
        unseen = Owner(f"slurm:{job.id}", "slurm", slurm_job=job.id, user=job.user, account=job.account)
        facts = {**(json.loads(row[0]) if row else {"owner": list(unseen)}), "scheduler": list(job)}
        rows = [
            {
                "allocation": f"{job.start:.3f}-{job.id}", "start": job.start, "end": job.end, "facts": facts,
                "model": row[1] if row else "", "profile": "", "hour": hour, "used": 0.0, "joules": 0.0,
                "until": min(job.end, (hour + 1) * HOUR_SECONDS),
                "states": {"unobserved": seconds * part},
            }
            for hour, part in hours_between(job.start, job.end)
        ]  # fmt: skip
        self._insert(self._scheduler, rows)

    def _replace_unobserved(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Take back what was added for jobs while their node could not be read: now its rows are here."""
        ids = json.dumps([Owner(*row["facts"]["owner"]).slurm_job for row in rows])
        added = self._database.execute(
            "SELECT id, json_extract(facts, '$.scheduler') FROM allocations"
            " WHERE node = ? AND json_extract(facts, '$.scheduler') IS NOT NULL"
            " AND job != '' AND job IN (SELECT value FROM json_each(?))",
            (self._scheduler, ids),
        ).fetchall()
        for allocation, text in added:
            self._database.execute(
                "UPDATE hours SET seconds = 0, states = '{}' WHERE node = ? AND allocation = ?",
                (self._scheduler, allocation),
            )
            job = SchedulerJob(*json.loads(text))
            usage = self.job(job.id, job.start - 1, job.end + 1)
            lacking = job.gpus * (job.end - job.start) - usage.seconds
            if lacking > job.gpus * ROUNDING_SECONDS and not usage.instances:
                self._add_unobserved(job, lacking)


def _added(states: Iterable[str]) -> Mapping[str, float]:
    sums = StateSums()
    for each in states:
        sums.step(each)
    return sums.states


def _source(by: str) -> str:
    return "allocated" if by in _OF_ROWS else "owned"


def _allocation(node: str, row: Mapping[str, Any]) -> tuple[Any, ...]:
    owner = Owner(*row["facts"]["owner"])
    team = owner.account or owner.namespace
    text = json.dumps(row["facts"], separators=(",", ":"))
    return (
        *(node, row["allocation"], row["start"], row["end"], owner.slurm_job or owner.workload, owner.user),
        *(owner.account, owner.namespace, team, text),
    )


def _hour(node: str, row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        *(node, row["allocation"], row["hour"], row["model"], row["profile"], row["until"]),
        *(sum(row["states"].values()), row["used"], row["joules"], json.dumps(row["states"])),
    )
