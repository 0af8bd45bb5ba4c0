"""The worker's record: which jobs wait and for how long, which summaries there are, and what is forgotten."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.tools.report.summaries.store import Store, Waiting


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = Store(tmp_path / "jobs.sqlite")
    yield found
    found.close()


def test_jobs_wait_until_they_are_due_the_longest_ended_first(store: Store) -> None:
    store.ended([("7", 100.0), ("8", 50.0), ("9", 101.0)], settle=30.0)

    assert store.waiting(79.9, 10) == []
    assert store.waiting(130.0, 10) == [Waiting("8", 50.0, 0), Waiting("7", 100.0, 0)]
    assert store.waiting(131.0, 2) == [Waiting("8", 50.0, 0), Waiting("7", 100.0, 0)]


def test_job_that_is_tried_again_counts_its_tries(store: Store) -> None:
    store.ended([("7", 100.0), ("8", 100.0)], settle=0.0)
    store.later("7", 200.0, 1)
    store.later("7", 300.0, 2)

    assert store.waiting(299.9, 10) == [Waiting("8", 100.0, 0)]
    assert set(store.waiting(300.0, 10)) == {Waiting("7", 100.0, 2), Waiting("8", 100.0, 0)}


def test_job_that_was_requeued_waits_again_and_one_that_is_told_twice_does_not(store: Store) -> None:
    store.ended([("7", 100.0)], settle=0.0)
    store.later("7", 500.0, 1)
    store.ended([("7", 100.0)], settle=0.0)
    assert store.waiting(499.0, 10) == []
    store.ended([("7", 200.0)], settle=10.0)
    assert store.waiting(210.0, 10) == [Waiting("7", 200.0, 0)]

    store.done("7", "made", 300.0, name="7", user="ada", summary={"job": "7"})
    for told, waits in ((200.0, []), (300.0, []), (301.0, [Waiting("7", 301.0, 0)])):
        store.ended([("7", told)], settle=0.0)
        assert store.waiting(1000.0, 10) == waits


def test_summaries_are_read_by_user_and_time_newest_first(store: Store) -> None:
    store.ended([(job, at) for job, at in (("1", 100.0), ("2", 200.0), ("3", 300.0), ("4", 400.0), ("5", 500.0))], 0.0)
    for job, user in (("1", "ada"), ("2", "ada"), ("3", "bob")):
        store.done(job, "made", 600.0, name=job, user=user, summary={"job": job})
    store.done("4", "no_gpus", 600.0, user="ada")

    assert [each["job"] for each in store.summaries("", 0.0)] == ["3", "2", "1"]
    assert [each["job"] for each in store.summaries("ada", 0.0)] == ["2", "1"]
    assert [each["job"] for each in store.summaries("", 200.0)] == ["3", "2"]
    assert store.counts() == {"made": 3, "no_gpus": 1, "waiting": 1}


def test_old_jobs_are_forgotten_whatever_became_of_them(store: Store) -> None:
    store.ended([("1", 100.0), ("2", 100.0), ("3", 200.0)], 0.0)
    store.done("1", "made", 150.0, summary={"job": "1"})
    store.forget(200.0)

    assert store.counts() == {"waiting": 1}
    assert store.waiting(1000.0, 10) == [Waiting("3", 200.0, 0)]


def test_marks_are_kept_by_name(store: Store) -> None:
    assert store.timestamp("asked") is None

    store.set_timestamp("asked", 5.0)
    store.set_timestamp("asked", 7.0)
    store.set_timestamp("other", 1.0)

    assert (store.timestamp("asked"), store.timestamp("other")) == (7.0, 1.0)


def test_reader_neither_makes_nor_changes_the_file(tmp_path: Path, store: Store) -> None:
    with pytest.raises(FileNotFoundError):
        Store(tmp_path / "none", reads=True)
    assert not (tmp_path / "none").exists()
    store.set_timestamp("asked", 5.0)

    reader = Store(tmp_path / "jobs.sqlite", reads=True)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.set_timestamp("asked", 9.0)

    assert reader.timestamp("asked") == 5.0
    reader.close()
