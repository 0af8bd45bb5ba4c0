"""The SQLite file of the accounting. Rows hold end values: writing one again replaces it, and never adds."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exporter.accounting.model import Allocation, Amount, Batch, CounterKey, CounterRow, HourKey, HourRow, Stored
from exporter.attribution.owner import Owner
from exporter.host.text import exists, new_file

NAME = "accounting.sqlite"
VERSION = 1
STORE_ERRORS = (sqlite3.Error, OSError)
_DAY_SECONDS = 86400.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS store (id TEXT NOT NULL, born REAL NOT NULL);
CREATE TABLE IF NOT EXISTS allocations (
    id TEXT PRIMARY KEY, start REAL NOT NULL, "end" REAL, facts TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS hours (
    allocation TEXT NOT NULL, hour INTEGER NOT NULL, model TEXT NOT NULL, profile TEXT NOT NULL,
    seq INTEGER NOT NULL, until REAL NOT NULL, used REAL NOT NULL, joules REAL NOT NULL, states TEXT NOT NULL,
    PRIMARY KEY (allocation, hour, model, profile)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS hours_seq ON hours (seq);
CREATE TABLE IF NOT EXISTS counters (
    labels TEXT PRIMARY KEY, since INTEGER NOT NULL, last REAL NOT NULL, allocations INTEGER NOT NULL,
    used REAL NOT NULL, joules REAL NOT NULL, states TEXT NOT NULL
) WITHOUT ROWID;
"""
_DAMAGED_TEXTS = """
SELECT EXISTS (SELECT 1 FROM hours WHERE NOT json_valid(states)) OR EXISTS (
    SELECT 1 FROM allocations WHERE NOT json_valid(facts)
) OR EXISTS (SELECT 1 FROM counters WHERE NOT json_valid(labels) OR NOT json_valid(states))
"""
_OTHER_VERSION = "other-version"
_DAMAGED = "damaged"


class AccountingStore:
    """Belongs to one thread at a time. Every method raises sqlite3.Error or OSError."""

    def __init__(self, path: Path, now: float) -> None:
        """Open the file, or create it. One that cannot be read is set aside: a new store has a new id."""
        self._path = path
        self._now = now
        try:
            self._database = self._open_database()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            _set_aside(path, _DAMAGED)
            self._database = self._open_database()

    def close(self) -> None:
        self._database.close()

    def load_recent(self) -> Stored:
        """Return what the tracker needs to go on: allocations of the last day, with their last hours."""
        store, born = self._database.execute("SELECT id, born FROM store").fetchone()
        oldest = self._now - _DAY_SECONDS
        allocations = self._database.execute(
            'SELECT id, start, "end", facts FROM allocations WHERE "end" IS NULL OR "end" >= ?', (oldest,)
        )
        hours = self._database.execute(
            "SELECT h.allocation, h.hour, h.model, h.profile, h.until, h.used, h.joules, h.states FROM hours h"
            ' JOIN allocations a ON a.id = h.allocation WHERE (a."end" IS NULL OR a."end" >= ?)'
            " AND h.hour = (SELECT max(hour) FROM hours WHERE allocation = h.allocation)",
            (oldest,),
        )
        counters = self._database.execute("SELECT labels, since, last, allocations, used, joules, states FROM counters")
        return Stored(
            str(store),
            float(born),
            tuple(allocation_of(row) for row in allocations),
            tuple(HourRow(HourKey(*row[:4]), row[4], Amount(json.loads(row[7]), row[5], row[6])) for row in hours),
            tuple(
                CounterRow(CounterKey(*json.loads(labels)), since, last, begun, Amount(json.loads(text), used, joules))
                for labels, since, last, begun, used, joules, text in counters
            ),
        )

    def write_batch(self, batch: Batch) -> None:
        """Write all of the batch or nothing. Each row that changed gets the next numbers."""
        if not exists(self._path):
            self._restore_file()
        database = self._database
        database.execute("BEGIN IMMEDIATE")
        try:
            # Not below the time: a file restored from a backup would use numbers again that the service has read.
            least = int(self._now * 1000)
            (seq,) = database.execute("SELECT max(coalesce(max(seq), 0), ?) FROM hours", (least,)).fetchone()
            database.executemany(
                'INSERT OR REPLACE INTO allocations (id, start, "end", facts) VALUES (?, ?, ?, ?)',
                [(each.id, each.start, each.end, encode_facts(each)) for each in batch.allocations.values()],
            )
            database.executemany(
                "INSERT OR REPLACE INTO hours VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (*row.key, seq + number, row.until, row.amount.used, row.amount.joules, _to_json(row.amount.states))
                    for number, row in enumerate(batch.hours.values(), 1)
                ],
            )
            database.execute("DELETE FROM counters")
            database.executemany(
                "INSERT INTO counters VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (json.dumps(row.key), row.since, row.last, row.allocations, row.amount.used, row.amount.joules,
                     _to_json(row.amount.states))
                    for row in batch.counters
                ],
            )  # fmt: skip
            database.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                database.execute("ROLLBACK")
            raise

    def delete_before(self, before: float) -> None:
        """Delete the hours before that, and allocations that ended before."""
        database = self._database
        database.execute("BEGIN IMMEDIATE")
        database.execute("DELETE FROM hours WHERE until < ?", (before,))
        database.execute('DELETE FROM allocations WHERE "end" < ?', (before,))
        database.execute("COMMIT")

    def _restore_file(self) -> None:
        """Write the content of a removed file, which is there as long as it is open, to a new one."""
        with contextlib.closing(sqlite3.connect(":memory:")) as content:
            self._database.backup(content)
            self._database.close()  # removes its log by name, which must not be that of the new file
            self._database = self._open_database()
            content.backup(self._database)

    def _open_database(self) -> sqlite3.Connection:
        with contextlib.suppress(FileExistsError):
            os.close(new_file(self._path, 0o640))
        database = sqlite3.connect(self._path, timeout=5.0, isolation_level=None, check_same_thread=False)
        try:
            if _read_version(database) not in (0, VERSION):
                database.close()
                _set_aside(self._path, _OTHER_VERSION)
                return self._open_database()
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            database.executescript(_SCHEMA)
            database.execute(f"PRAGMA user_version = {VERSION}")
            _refuse_damage(database)
            if database.execute("SELECT 1 FROM store").fetchone() is None:
                database.execute("INSERT INTO store VALUES (?, ?)", (uuid.uuid4().hex, self._now))
        except BaseException:
            database.close()
            raise
        return database


def _read_version(database: sqlite3.Connection) -> int:
    """Return the file's version, 0 of a new one. Raises OperationalError for that of `gpu-exporter accounting`."""
    (version,) = database.execute("PRAGMA user_version").fetchone()
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    if tables and "store" not in tables:
        raise sqlite3.OperationalError(f"{NAME} is the database of another program")  # which has a --state.dir, too
    return int(version)


def _refuse_damage(database: sqlite3.Connection) -> None:
    """Raise DatabaseError where a page or a text is damaged: it would fail each time that it is read."""
    (found,) = database.execute("PRAGMA quick_check(1)").fetchone()
    (damaged,) = database.execute(_DAMAGED_TEXTS).fetchone()
    if found != "ok" or damaged:
        raise sqlite3.DatabaseError(f"damaged: {found}")


def read_after(path: Path, seq: int, limit: int) -> Mapping[str, Any]:
    """Return the rows with higher numbers as a JSON document, at most `limit`. Raises sqlite3.Error, OSError."""
    path.stat()
    database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", timeout=5.0, uri=True)
    with contextlib.closing(database):
        database.execute("BEGIN")
        store, born = database.execute("SELECT id, born FROM store").fetchone()
        found = database.execute(
            "SELECT h.seq, h.hour, h.model, h.profile, h.until, h.used, h.joules, h.states,"
            ' a.id, a.start, a."end", a.facts FROM hours h JOIN allocations a ON a.id = h.allocation'
            " WHERE h.seq > ? ORDER BY h.seq LIMIT ?",
            (seq, limit),
        ).fetchall()
    rows = [
        {
            "seq": row[0], "hour": row[1], "model": row[2], "profile": row[3], "until": row[4], "used": row[5],
            "joules": row[6], "states": json.loads(row[7]), "allocation": row[8], "start": row[9], "end": row[10],
            "facts": json.loads(row[11]),
        }
        for row in found
    ]  # fmt: skip
    return {"store": store, "born": born, "rows": rows, "more": len(rows) == limit}


MAX_ROWS = 1000
"""Rows of one answer."""


def rows_after(path: Path, node: str, seq: int) -> bytes:
    """Return the next rows after that number as JSON, for the accounting service. Raises sqlite3.Error, OSError."""
    return _to_json({"node": node, **read_after(path, seq, MAX_ROWS)}).encode()


def encode_facts(allocation: Allocation) -> str:
    """Return what describes the allocation as JSON."""
    return _to_json({
        "owner": list(allocation.owner), "reported_start": allocation.reported_start, "gpus": allocation.gpus,
        "devices": allocation.devices, "details": allocation.details,
    })  # fmt: skip


def allocation_of(row: tuple[str, float, float | None, str]) -> Allocation:
    name, start, end, text = row
    known = json.loads(text)
    return Allocation(
        name,
        Owner(*known["owner"]),
        start,
        end,
        known["reported_start"],
        known["gpus"],
        tuple(known["devices"]),
        known["details"],
    )


def _to_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _set_aside(path: Path, cause: str) -> None:
    """Rename the file and those that belong to it: their rows may still be of use to a person."""
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).replace(path.with_name(f"{path.name}.{cause}{suffix}"))
