"""The disk may be full, hang, or hold a file of somebody else: cycles go on, and the health shows it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from exporter.accounting.model import Allocation, Amount, Batch, CounterKey, CounterRow, HourKey, HourRow
from exporter.accounting.store import AccountingStore, read_after, rows_after
from exporter.accounting.writer import MAX_WAITING_ROWS, Writer
from exporter.attribution.owner import Owner
from exporter.tools.report.accounting.database import Database


def batch(seconds: float, *, job: str = "1", hour: int = 10) -> Batch:
    key = HourKey(job, hour, "H100", "")
    return Batch(
        0.0,
        {job: Allocation(job, Owner("slurm:1", "slurm", slurm_job="1"), 36000.0)},
        {key: HourRow(key, 36000.0 + seconds, Amount({"computing": seconds}))},
        (CounterRow(CounterKey(user="ada"), 1, 2.0, 1, Amount({"computing": seconds})),),
    )


def states(rows: Path) -> list[float]:
    return [row["states"]["computing"] for row in read_after(rows, 0, 10)["rows"]]


class Disk(AccountingStore):
    """A real store on a disk that is full now and then."""

    full = False
    opened: ClassVar[list[Disk]] = []

    def __init__(self, path: Path, now: float) -> None:
        super().__init__(path, now)
        Disk.opened.append(self)

    def write_batch(self, batch: Batch) -> None:
        if Disk.full:
            raise sqlite3.OperationalError("database or disk is full")
        super().write_batch(batch)


@pytest.fixture
def clock() -> list[float]:
    return [100.0]


@pytest.fixture
def disk() -> Iterator[type[Disk]]:
    """Stores that are closed after the test."""
    Disk.full = False
    Disk.opened.clear()
    yield Disk
    for store in Disk.opened:
        store.close()


@pytest.fixture
def writer(tmp_path: Path, clock: list[float], disk: type[Disk]) -> Writer:
    return Writer(
        tmp_path / "a.sqlite", unix=lambda: 36100.0, clock=lambda: clock[0], open_store=disk  # type: ignore[arg-type, return-value]
    )  # fmt: skip


def test_row_that_grows_replaces_itself_and_has_a_new_number(writer: Writer, tmp_path: Path) -> None:
    for seconds in (1.0, 2.0):
        writer.offer_batch(batch(seconds))
        writer.write_once()

    found = read_after(tmp_path / "a.sqlite", 0, 10)

    assert [(row["seq"], row["states"]) for row in found["rows"]] == [(36_100_002, {"computing": 2.0})]
    assert read_after(tmp_path / "a.sqlite", 36_100_002, 10)["rows"] == []


def test_full_disk_loses_nothing_and_shows(writer: Writer, tmp_path: Path, clock: list[float]) -> None:
    writer.offer_batch(batch(1.0))
    writer.write_once()
    Disk.full = True
    writer.offer_batch(batch(2.0))
    writer.offer_batch(batch(3.0, hour=11))
    clock[0] += 30
    writer.write_once()
    failed = writer.health
    Disk.full = False
    writer.offer_batch(batch(4.0, hour=11))
    writer.write_once()

    assert (failed.persistent, failed.age, failed.waiting) == (False, 30.0, 2)
    assert states(tmp_path / "a.sqlite") == [2.0, 4.0]
    assert (writer.health.persistent, writer.health.waiting) == (True, 0)


def test_counters_are_published_once_they_are_on_disk(writer: Writer, clock: list[float]) -> None:
    writer.offer_batch(batch(1.0))
    before = writer.counters
    writer.write_once()
    written = writer.counters
    Disk.full = True
    writer.offer_batch(batch(5.0))
    writer.write_once()
    unwritten = writer.counters
    clock[0] += 61.0
    late = writer.counters

    values = [[row.amount.states["computing"] for row in rows] for rows in (before, written, unwritten, late)]
    assert values == [[], [1.0], [1.0], [5.0]]


def test_rows_that_wait_are_bounded_and_the_rest_is_counted(writer: Writer) -> None:
    for hour in range(MAX_WAITING_ROWS + 5):
        writer.offer_batch(batch(1.0, hour=hour))

    assert (writer.health.waiting, writer.health.dropped) == (MAX_WAITING_ROWS, 5)


@pytest.mark.parametrize("content", [b"no database at all, but longer than a header of SQLite would be" * 20, b""])
def test_damaged_file_is_set_aside_and_a_new_store_begins(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(content)

    store = AccountingStore(path, 5.0)

    assert store.load_recent().born == 5.0
    assert (tmp_path / "a.sqlite.damaged").exists() is bool(content)
    store.close()


def overwrite_pages(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[8192:-4096] = b"Z" * (len(content) - 12288)
    path.write_bytes(content)


def overwrite_text(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("UPDATE allocations SET facts = '{owner'")
    database.close()


@pytest.mark.parametrize("damage", [overwrite_pages, overwrite_text])
def test_file_with_damaged_rows_is_set_aside_and_the_next_rows_are_written(
    damage: Callable[[Path], None], disk: type[Disk], tmp_path: Path
) -> None:
    path = tmp_path / "a.sqlite"
    store = AccountingStore(path, 5.0)
    for number in range(100):
        store.write_batch(batch(1.0, job=f"{number}"))
    store.close()
    damage(path)

    writer = Writer(path, unix=lambda: 36100.0, open_store=disk)  # type: ignore[arg-type, return-value]
    writer.offer_batch(batch(7.0))
    writer.write_once()

    assert (writer.stored.born, states(path)) == (36100.0, [7.0])
    assert (tmp_path / "a.sqlite.damaged").exists()


def test_file_that_is_removed_while_it_is_open_comes_back_whole(writer: Writer, tmp_path: Path) -> None:
    """The service goes on at its cursor: the store has its id and its numbers."""
    path = tmp_path / "a.sqlite"
    writer.offer_batch(batch(1.0))
    writer.write_once()
    before = read_after(path, 0, 10)
    for suffix in ("", "-wal", "-shm"):
        path.with_name(f"a.sqlite{suffix}").unlink()

    writer.offer_batch(batch(2.0, job="2"))
    writer.write_once()

    after = read_after(path, 0, 10)
    assert (after["store"], after["rows"][0]) == (before["store"], before["rows"][0])
    assert [row["seq"] for row in after["rows"]] == [36_100_001, 36_100_002]
    writer.offer_batch(batch(3.0, job="2"))
    writer.write_once()
    assert states(path) == [1.0, 3.0]


def test_file_of_a_newer_version_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()

    AccountingStore(path, 5.0).close()

    assert (tmp_path / "a.sqlite.other-version").exists()


def test_database_of_the_service_in_the_same_folder_is_left_alone(disk: type[Disk], tmp_path: Path) -> None:
    """`state.dir` is an option of both commands, and one configuration file serves them."""
    path = tmp_path / "accounting.sqlite"
    Database(path).close()

    writer = Writer(path, unix=lambda: 36100.0, open_store=disk)  # type: ignore[arg-type, return-value]
    writer.offer_batch(batch(7.0))
    writer.write_once()

    assert not writer.health.persistent
    Database(path, reads=True).close()


FULL = Batch(
    0.0,
    {
        "runs": Allocation(
            "runs",
            Owner("slurm:1", "slurm", slurm_job="1", user="ada"),
            7200.5,
            None,
            7200.0,
            1.5,
            ("GPU-0",),
            {"a": "b"},
        ),
        "ended": Allocation("ended", Owner("n/Job/j", "pod", namespace="n"), 5.0, 7300.0),
    },
    {
        key: HourRow(key, until, Amount({"idle": 3.0, "computing": 4.0}, 2.0, 9.0))
        for key, until in (
            (HourKey("runs", 2, "H100", "1g.10gb"), 10800.0),
            (HourKey("runs", 3, "H100", "1g.10gb"), 10900.0),
            (HourKey("ended", 2, "A100", ""), 7300.0),
        )
    },
    (CounterRow(CounterKey("slurm", user="ada", pool="p"), 7, 8.5, 2, Amount({"idle": 1.0}, 2.0, 3.0)),),
)


def test_store_gives_back_running_allocations_with_their_last_hours_and_all_counters(tmp_path: Path) -> None:
    store = AccountingStore(tmp_path / "a.sqlite", 5.0)
    store.write_batch(FULL)
    store.close()
    soon, later = (AccountingStore(tmp_path / "a.sqlite", 7300.0 + seconds) for seconds in (86400, 86401))

    last = [row for key, row in FULL.hours.items() if key != HourKey("runs", 2, "H100", "1g.10gb")]
    found = soon.load_recent()
    assert {each.id: each for each in found.allocations} == FULL.allocations
    assert sorted(found.hours, key=lambda row: row.key.hour, reverse=True) == last
    assert (found.born, found.counters) == (5.0, FULL.counters)
    assert ([each.id for each in later.load_recent().allocations], later.load_recent().hours) == (["runs"], (last[0],))
    soon.close()
    later.close()


def test_batch_that_fails_halfway_leaves_nothing_and_the_next_is_written(tmp_path: Path) -> None:
    store = AccountingStore(tmp_path / "a.sqlite", 5.0)
    row = CounterRow(CounterKey(), 1, 2.0, 1, Amount({"idle": object()}))  # type: ignore[dict-item]
    with pytest.raises(TypeError):
        store.write_batch(replace(batch(1.0), counters=(row,)))
    after = states(tmp_path / "a.sqlite")
    store.write_batch(batch(2.0))

    assert (after, states(tmp_path / "a.sqlite")) == ([], [2.0])
    store.close()


def test_rows_for_the_service_have_all_facts_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    store = AccountingStore(tmp_path / "a.sqlite", 5.0)
    store.write_batch(FULL)
    first, rest = (read_after(tmp_path / "a.sqlite", seq, 2) for seq in (0, 5002))

    assert (first["born"], [row["seq"] for row in first["rows"]], first["more"]) == (5.0, [5001, 5002], True)
    assert rest["more"] is False
    assert first["rows"][0] == {
        "seq": 5001, "hour": 2, "model": "H100", "profile": "1g.10gb", "until": 10800.0, "used": 2.0, "joules": 9.0,
        "states": {"idle": 3.0, "computing": 4.0}, "allocation": "runs", "start": 7200.5, "end": None,
        "facts": {
            "owner": ["slurm:1", "slurm", "", "", "", "1", "ada", "", ""], "reported_start": 7200.0, "gpus": 1.5,
            "devices": ["GPU-0"], "details": {"a": "b"},
        },
    }  # fmt: skip
    assert json.loads(rows_after(tmp_path / "a.sqlite", "gpu01", 5002)) == {"node": "gpu01", **rest}
    store.close()


def test_retention_forgets_ended_allocations(tmp_path: Path) -> None:
    store = AccountingStore(tmp_path / "a.sqlite", 5.0)
    store.write_batch(batch(1.0))
    store.delete_before(36000.5)
    kept = states(tmp_path / "a.sqlite")

    store.delete_before(36002.0)

    assert (kept, states(tmp_path / "a.sqlite")) == ([1.0], [])
    store.close()


def test_node_without_state_dir_publishes_from_memory() -> None:
    writer = Writer(None, memory_id="gpu01", unix=lambda: 5.0)  # type: ignore[arg-type, return-value]
    writer.offer_batch(batch(3.0))

    assert (writer.stored.id, [row.amount.states for row in writer.counters]) == ("gpu01", [{"computing": 3.0}])
    assert (writer.health.persistent, writer.health.age) == (False, None)
