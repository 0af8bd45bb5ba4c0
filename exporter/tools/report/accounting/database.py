"""The database of the service. A row that is received twice is the same row; what was received is never lost."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from exporter.accounting.model import HOUR_SECONDS
from exporter.attribution.owner import Owner
from exporter.tools.report.accounting.prices import Prices

_SCHEMA = """
CREATE TABLE IF NOT EXISTS allocations (
    node TEXT, id TEXT, start REAL NOT NULL, "end" REAL, job TEXT NOT NULL, user TEXT NOT NULL,
    account TEXT NOT NULL, namespace TEXT NOT NULL, team TEXT NOT NULL, facts TEXT NOT NULL, PRIMARY KEY (node, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS allocations_job ON allocations (job);
CREATE TABLE IF NOT EXISTS hours (
    node TEXT, allocation TEXT, hour INTEGER, model TEXT, profile TEXT, until REAL NOT NULL, seconds REAL NOT NULL,
    used REAL NOT NULL, joules REAL NOT NULL, states TEXT NOT NULL,
    PRIMARY KEY (node, allocation, hour, model, profile)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS hours_hour ON hours (hour);
CREATE TABLE IF NOT EXISTS cursors (
    target TEXT PRIMARY KEY, store TEXT NOT NULL, seq INTEGER NOT NULL, at REAL NOT NULL
);
"""
_SCHEDULER = "scheduler"
"""Node of the rows that only the scheduler knows of."""
_COLUMN = {"model": "h.model", "node": "h.node"}
GROUPS = ("team", "account", "namespace", "user", "job", "node", "model")


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
    hours: int
    """Hours of the time that have data."""

    @property
    def seconds(self) -> float:
        return sum(self.states.values())


class Charge(NamedTuple):
    """GPU hours of one group, model and price."""

    name: str
    model: str
    price: float | None
    """Price of one hour in the currency of the site; None if it has none."""
    hours: float


@dataclass(frozen=True, slots=True)
class JobUsage:
    """GPU seconds of one job by state, and when it had its GPUs."""

    states: Mapping[str, float] = field(default_factory=dict[str, float])
    user: str = ""
    account: str = ""
    start: float = 0.0
    end: float = 0.0

    @property
    def seconds(self) -> float:
        return sum(self.states.values())


@dataclass(frozen=True, slots=True)
class Difference:
    """A job for which the scheduler and the nodes differ; GPU seconds."""

    job: str
    scheduler: float
    nodes: float


ROUNDING_SECONDS = 3.0
"""Difference of one job without a cause: Slurm counts whole seconds, and its start and end are before the hooks."""


class Database:
    """Methods raise sqlite3.Error. Each is one transaction."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, timeout=30.0, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.executescript(_SCHEMA)

    def close(self) -> None:
        self._database.close()

    def cursor(self, target: str) -> Cursor:
        row = self._database.execute("SELECT store, seq FROM cursors WHERE target = ?", (target,)).fetchone()
        return Cursor(*row) if row else Cursor()

    def add(self, target: str, node: str, cursor: Cursor, rows: Sequence[Mapping[str, Any]], now: float) -> None:
        """Add the rows of one answer, and move the cursor with them. The row that reaches further in time wins."""
        with self._database as database:
            database.execute("BEGIN IMMEDIATE")
            database.executemany(
                "INSERT INTO allocations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
                ' "end" = excluded."end", user = excluded.user, account = excluded.account, team = excluded.team,'
                " facts = excluded.facts",
                [_allocation(node, row) for row in rows],
            )
            database.executemany(
                "INSERT INTO hours VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
                " until = excluded.until, seconds = excluded.seconds, used = excluded.used, joules = excluded.joules,"
                " states = excluded.states WHERE excluded.until >= hours.until",
                [_hour(node, row) for row in rows],
            )
            database.execute(
                "INSERT OR REPLACE INTO cursors VALUES (?, ?, ?, ?)", (target, cursor.store, cursor.seq, now)
            )

    def totals(self, by: str, since: float, until: float, team: str = "") -> Sequence[Total]:
        """Return what each group got in whole hours, the largest first."""
        column = _COLUMN.get(by, f"a.{by}")
        rows = self._database.execute(
            f"SELECT {column} AS name, state.key, sum(state.value), count(DISTINCT h.node || h.allocation),"  # noqa: S608
            " count(DISTINCT h.hour) FROM hours h JOIN allocations a ON a.node = h.node AND a.id = h.allocation,"
            " json_each(h.states) AS state WHERE h.hour >= ?1 AND h.hour < ?2 AND (?3 = '' OR a.team = ?3)"
            " GROUP BY name, state.key",
            (since // HOUR_SECONDS, until // HOUR_SECONDS, team),
        )
        states: dict[str, dict[str, float]] = {}
        for name, state, seconds, _, _ in rows:
            states.setdefault(name, {})[state] = seconds
        whole = self._database.execute(
            f"SELECT {column} AS name, sum(h.used), sum(h.joules), count(DISTINCT h.node || h.allocation),"  # noqa: S608
            " count(DISTINCT h.hour) FROM hours h JOIN allocations a ON a.node = h.node AND a.id = h.allocation"
            " WHERE h.hour >= ?1 AND h.hour < ?2 AND (?3 = '' OR a.team = ?3) GROUP BY name",
            (since // HOUR_SECONDS, until // HOUR_SECONDS, team),
        )
        found = [Total(name, states.get(name, {}), *rest) for name, *rest in whole]
        return sorted(found, key=lambda each: (-each.seconds, each.name))

    def charges(self, by: str, since: float, until: float, prices: Prices, team: str = "") -> Sequence[Charge]:
        """Return the hours of each group by model and price, each hour at the price of its time."""
        found: dict[tuple[str, str, float | None], float] = {}
        rows = self._database.execute(
            f"SELECT {_COLUMN.get(by, f'a.{by}')}, h.model, h.profile, json_extract(a.facts, '$.owner[8]'), h.hour,"  # noqa: S608
            " sum(h.seconds) FROM hours h JOIN allocations a ON a.node = h.node AND a.id = h.allocation"
            " WHERE h.hour >= ?1 AND h.hour < ?2 AND (?3 = '' OR a.team = ?3) GROUP BY 1, 2, 3, 4, 5",
            (since // HOUR_SECONDS, until // HOUR_SECONDS, team),
        )
        for name, model, profile, pool, hour, seconds in rows:
            key = (name, model, prices.per_gpu_hour(model, profile, pool, hour * HOUR_SECONDS))
            found[key] = found.get(key, 0.0) + seconds / 3600
        return [Charge(*key, hours) for key, hours in found.items()]

    def hours_covered(self, since: float, until: float) -> int:
        """Return the number of hours of which any node has data."""
        span = (since // HOUR_SECONDS, until // HOUR_SECONDS)
        (count,) = self._database.execute(
            "SELECT count(DISTINCT hour) FROM hours WHERE hour >= ? AND hour < ? AND node != 'scheduler'", span
        ).fetchone()
        return int(count)

    def job(self, job: str, since: float, until: float) -> JobUsage:
        """Return what one Slurm job got between two moments, over all its starts and nodes."""
        rows = self._database.execute(
            'SELECT h.states, a.user, a.account, a.start, coalesce(a."end", h.until) FROM hours h'
            " JOIN allocations a ON a.node = h.node AND a.id = h.allocation"
            ' WHERE a.job = ? AND a.start < ? AND coalesce(a."end", h.until) > ? ORDER BY a.start',
            (job, until, since),
        ).fetchall()
        found: dict[str, float] = {}
        for states, *_ in rows:
            for state, seconds in json.loads(states).items():
                found[state] = found.get(state, 0.0) + seconds
        if not rows:
            return JobUsage()
        return JobUsage(found, rows[-1][1], rows[-1][2], rows[0][3], max(row[4] for row in rows))

    def compare(self, jobs: Iterable[tuple[str, float, float, float]], tolerance: float) -> Sequence[Difference]:
        """Compare with the scheduler's jobs: id, start, end, GPUs. What nodes lack is added as unobserved time.

        More than the scheduler reports is never added, nor taken away: it is a finding.
        """
        found: list[Difference] = []
        for job, start, end, gpus in jobs:
            expected, known = gpus * (end - start), self.job(job, start - 1, end + 1).seconds
            if abs(known - expected) <= tolerance * expected + gpus * ROUNDING_SECONDS:
                continue
            found.append(Difference(job, expected, known))
            if known < expected:
                self._add_unobserved(job, start, end, expected - known)
        return found

    def forget(self, before: float) -> None:
        """Delete hours that ended before that, and the allocations that have none left."""
        with self._database as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute("DELETE FROM hours WHERE until < ?", (before,))
            database.execute('DELETE FROM allocations WHERE "end" < ?', (before,))

    def _add_unobserved(self, job: str, start: float, end: float, seconds: float) -> None:
        row = self._database.execute(
            "SELECT a.facts, h.model FROM allocations a JOIN hours h ON a.node = h.node AND a.id = h.allocation"
            " WHERE a.job = ? ORDER BY a.start DESC LIMIT 1",
            (job,),
        ).fetchone()
        facts = json.loads(row[0]) if row else {"owner": list(Owner(f"slurm:{job}", "slurm", slurm_job=job))}
        rows = [
            {
                "allocation": f"{start:.3f}-{job}", "start": start, "end": end, "facts": facts,
                "model": row[1] if row else "", "profile": "", "hour": hour, "used": 0.0, "joules": 0.0,
                "until": min(end, (hour + 1) * HOUR_SECONDS),
                "states": {"unobserved": seconds * part},
            }
            for hour, part in _parts(start, end)
        ]  # fmt: skip
        self.add(_SCHEDULER, _SCHEDULER, Cursor(), rows, end)


def _allocation(node: str, row: Mapping[str, Any]) -> tuple[Any, ...]:
    owner = Owner(*row["facts"]["owner"])
    team = owner.account or owner.namespace
    text = json.dumps(row["facts"], separators=(",", ":"))
    return (
        *(node, row["allocation"], row["start"], row["end"], owner.slurm_job, owner.user),
        *(owner.account, owner.namespace, team, text),
    )


def _hour(node: str, row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        *(node, row["allocation"], row["hour"], row["model"], row["profile"], row["until"]),
        *(sum(row["states"].values()), row["used"], row["joules"], json.dumps(row["states"])),
    )


def _parts(start: float, end: float) -> Iterable[tuple[int, float]]:
    """Yield the hours between two moments, each with its part of the time."""
    for hour in range(int(start // HOUR_SECONDS), int(end // HOUR_SECONDS) + 1):
        inside = min(end, (hour + 1) * HOUR_SECONDS) - max(start, hour * HOUR_SECONDS)
        if inside > 0:
            yield hour, inside / (end - start)
