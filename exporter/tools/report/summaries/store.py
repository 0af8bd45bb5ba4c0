"""The worker's own record, an SQLite file: which ended jobs wait for their summary, and the summaries made."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WAITING, MADE, NO_GPUS, NO_DATA = "waiting", "made", "no_gpus", "no_data"
"""States of a job: only the first is looked at again."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    job TEXT PRIMARY KEY,
    ended REAL NOT NULL,
    state TEXT NOT NULL,
    due REAL NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    made REAL,
    name TEXT NOT NULL DEFAULT '',
    user TEXT NOT NULL DEFAULT '',
    summary TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS jobs_due ON jobs (state, due);
CREATE INDEX IF NOT EXISTS jobs_user ON jobs (user, ended);
CREATE TABLE IF NOT EXISTS timestamps (name TEXT PRIMARY KEY, at REAL NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    job: str
    ended: float
    tries: int


class Store:
    """Opened for the time of one round. Every method is one transaction."""

    def __init__(self, file: Path, *, reads: bool = False) -> None:
        """One that only `reads` neither makes nor changes the file. Raises OSError, or sqlite3.Error."""
        if reads:
            file.stat()
            self._database = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", timeout=30, uri=True)
            return
        self._database = sqlite3.connect(file, timeout=30, isolation_level=None)
        try:
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.executescript(_SCHEMA)
        except sqlite3.Error:
            self._database.close()
            raise

    def close(self) -> None:
        self._database.close()

    def ended(self, jobs: Iterable[tuple[str, float]], settle: float) -> None:
        """These jobs ended then. One that had ended before was requeued, and gets a summary of all its time."""
        self._database.execute("BEGIN")
        self._database.executemany(
            "INSERT INTO jobs (job, ended, state, due) VALUES (?, ?, 'waiting', ?) ON CONFLICT (job) DO UPDATE"
            " SET ended = excluded.ended, state = 'waiting', due = excluded.due, tries = 0"
            " WHERE excluded.ended > ended AND (made IS NULL OR excluded.ended > made)",
            [(job, at, at + settle) for job, at in jobs],
        )
        self._database.execute("COMMIT")

    def waiting(self, now: float, limit: int) -> Sequence[Waiting]:
        """Those that are due, the longest ended first; what was tried in vain comes after what was not."""
        rows = self._database.execute(
            "SELECT job, ended, tries FROM jobs WHERE state = 'waiting' AND due <= ? ORDER BY tries, ended LIMIT ?",
            (now, limit),
        )
        return [Waiting(*row) for row in rows]

    def later(self, job: str, due: float, tries: int) -> None:
        self._database.execute("UPDATE jobs SET due = ?, tries = ? WHERE job = ?", (due, tries, job))

    def done(
        self,
        job: str,
        state: str,
        now: float,
        *,
        name: str = "",
        user: str = "",
        summary: Mapping[str, Any] | None = None,
    ) -> None:
        text = json.dumps(summary, separators=(",", ":")) if summary else ""
        self._database.execute(
            "UPDATE jobs SET state = ?, made = ?, name = ?, user = ?, summary = ? WHERE job = ?",
            (state, now, name, user, text, job),
        )

    def summaries(self, user: str, since: float) -> Sequence[Mapping[str, Any]]:
        """Newest first; of everybody without a user."""
        rows = self._database.execute(
            "SELECT summary FROM jobs WHERE state = 'made' AND ended >= ? AND (? = '' OR user = ?) ORDER BY ended DESC",
            (since, user, user),
        )
        return [json.loads(row[0]) for row in rows]

    def counts(self) -> Mapping[str, int]:
        return dict(self._database.execute("SELECT state, count(*) FROM jobs GROUP BY state"))

    def timestamp(self, name: str) -> float | None:
        row = self._database.execute("SELECT at FROM timestamps WHERE name = ?", (name,)).fetchone()
        return row[0] if row else None

    def set_timestamp(self, name: str, at: float) -> None:
        self._database.execute("INSERT OR REPLACE INTO timestamps (name, at) VALUES (?, ?)", (name, at))

    def forget(self, before: float) -> None:
        """Jobs that ended before that; those that still wait too: nothing can be known of them any more."""
        self._database.execute("DELETE FROM jobs WHERE ended < ?", (before,))
