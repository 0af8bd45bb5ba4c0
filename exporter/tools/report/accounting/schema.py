"""The tables of the service's database, and how those of an older service become these."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

from exporter.host.text import exists

CLUSTER = "substr({0}node, 1, instr({0}node, '/') - 1)"
"""Cluster of a node, which is before its name; empty without one."""
_POOL = (
    "coalesce(nullif(json_extract({0}.facts, '$.owner[8]'), ''), json_extract({0}.facts, '$.details.label_pool'), '')"
)
_SCHEMA = f"""
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
CREATE VIEW IF NOT EXISTS allocated AS
SELECT {CLUSTER.format("h.")} AS cluster,
    h.hour, h.node, a.job, a.team, a.account, a.namespace, a.user, h.model, h.profile,
    {_POOL.format("a")} AS pool,
    h.seconds, h.used, h.joules,
    CAST(a.start / 3600 AS INTEGER) = h.hour AND NOT EXISTS (  -- with several kinds of GPU it begins once
        SELECT 1 FROM hours o WHERE o.node = h.node AND o.allocation = h.allocation AND o.hour = h.hour
            AND (o.model, o.profile) < (h.model, h.profile)
    ) AS began, h.states
FROM hours h JOIN allocations a ON a.node = h.node AND a.id = h.allocation;
CREATE TABLE IF NOT EXISTS sums (
    cluster TEXT, hour INTEGER, team TEXT, account TEXT, namespace TEXT, user TEXT, model TEXT, profile TEXT, pool TEXT,
    seconds REAL NOT NULL, used REAL NOT NULL, joules REAL NOT NULL, began INTEGER NOT NULL, states TEXT NOT NULL,
    PRIMARY KEY (hour, cluster, team, account, namespace, user, model, profile, pool)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS changed (hour INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS observed (node TEXT, hour INTEGER, PRIMARY KEY (node, hour)) WITHOUT ROWID;
CREATE VIEW IF NOT EXISTS owned AS
SELECT * FROM sums WHERE hour NOT IN (SELECT hour FROM changed) UNION ALL
SELECT cluster, hour, team, account, namespace, user, model, profile, pool, seconds, used, joules, began, states
FROM allocated WHERE hour IN (SELECT hour FROM changed);
CREATE TRIGGER IF NOT EXISTS owner_changed AFTER UPDATE ON allocations
WHEN OLD.team != NEW.team OR OLD.account != NEW.account OR OLD.user != NEW.user
    OR {_POOL.format("OLD")} != {_POOL.format("NEW")} BEGIN
    INSERT INTO changed SELECT DISTINCT hour FROM hours WHERE node = NEW.node AND allocation = NEW.id
        AND hour NOT IN (SELECT hour FROM changed);
END;
"""  # noqa: S608
_HOUR_TRIGGER = """
CREATE TRIGGER IF NOT EXISTS hour_{event} AFTER {event} ON hours BEGIN
    INSERT INTO changed SELECT NEW.hour WHERE NEW.hour NOT IN (SELECT hour FROM changed);
    INSERT INTO observed SELECT NEW.node, NEW.hour
        WHERE coalesce(json_extract(NEW.states, '$.unobserved'), 0) < NEW.seconds
        AND NOT EXISTS (SELECT 1 FROM observed WHERE node = NEW.node AND hour = NEW.hour);
END;
"""
_TRIGGERS = "".join(_HOUR_TRIGGER.format(event=event) for event in ("INSERT", "UPDATE"))
_SUMMED = "hour, team, account, namespace, user, model, profile, pool, seconds, used, joules, began, states"
_VERSION = 4
_OLD = """
BEGIN IMMEDIATE; DROP VIEW IF EXISTS owned; DROP VIEW IF EXISTS allocated; DROP TRIGGER IF EXISTS hour_INSERT;
DROP TRIGGER IF EXISTS hour_UPDATE; DROP TRIGGER IF EXISTS owner_changed;
"""
_OLD_SUMS = f"CREATE TABLE IF NOT EXISTS sums ({_SUMMED}); ALTER TABLE sums RENAME TO old_sums;"
_MIGRATE = f"""
UPDATE allocations SET job = coalesce(json_extract(facts, '$.owner[0]'), '') WHERE job = '';
INSERT OR IGNORE INTO changed SELECT DISTINCT hour FROM hours;
INSERT OR IGNORE INTO observed SELECT DISTINCT node, hour FROM hours
    WHERE coalesce(json_extract(states, '$.unobserved'), 0) < seconds;
PRAGMA user_version = {_VERSION}; COMMIT;
"""  # noqa: S608
_MIGRATE_SUMS = f"INSERT INTO sums SELECT '', {_SUMMED} FROM old_sums; DROP TABLE old_sums;"  # noqa: S608
_CLUSTER_VERSION = 3
"""Version from which on sums have a cluster."""


def open_database(path: Path, *, reads: bool) -> sqlite3.Connection:
    """Open the file, or create it; one that is only read is not changed. Raises sqlite3.Error."""
    # Beside a file at rest SQLite would write a log, even to read.
    rests = reads and not exists(path.with_name(f"{path.name}-wal")) and not os.access(path.parent, os.W_OK)
    address = f"{path.absolute().as_uri()}?mode={'ro' if reads else 'rwc'}" + ("&immutable=1" if rests else "")
    database = sqlite3.connect(address, timeout=30.0, isolation_level=None, uri=True)
    try:
        _prepare(database, reads=reads)
    except sqlite3.Error:
        database.close()
        raise
    return database


def _prepare(database: sqlite3.Connection, *, reads: bool) -> None:
    # typeshed wants `step` to take any type.
    database.create_aggregate("add_states", 1, StateSums)  # type: ignore[arg-type]
    (version,) = database.execute("PRAGMA user_version").fetchone()
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    if tables and "cursors" not in tables:
        raise sqlite3.DatabaseError("not the database of `gpu-exporter accounting`")
    if version > _VERSION or (reads and version < _VERSION):
        raise sqlite3.DatabaseError(f"of version {version}, expected {_VERSION}: of another gpu-exporter")
    if reads:
        return
    database.execute("PRAGMA journal_mode = WAL")
    before, after = (_OLD, _MIGRATE) if version < _VERSION else ("", "")
    if version < _CLUSTER_VERSION:
        before, after = before + _OLD_SUMS, _MIGRATE_SUMS + after
    database.executescript(before + _SCHEMA + _TRIGGERS + after)


class StateSums:
    """Aggregate of SQL: adds up the states of rows."""

    def __init__(self) -> None:
        self.states: dict[str, float] = {}

    def step(self, states: str) -> None:
        for state, seconds in json.loads(states).items():
            self.states[state] = self.states.get(state, 0.0) + seconds

    def finalize(self) -> str:
        return json.dumps(self.states)
