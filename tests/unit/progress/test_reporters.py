"""No user can use up what is there for all."""

from __future__ import annotations

from exporter.progress.protocol import Report
from exporter.progress.reporters import BURST, REPORTERS_PER_USER, Process, Reporters

REPORT = Report(counters={"samples": 1.0})


def test_a_flood_of_one_user_is_cut_and_others_are_heard() -> None:
    reporters = Reporters()

    admitted = [reporters.admit(1000, 0.0) for _ in range(10_000)]

    assert sum(admitted) == BURST
    assert reporters.admit(1001, 0.0)
    assert reporters.results()["rate_limited"] == 10_000 - BURST
    assert reporters.admit(1000, 1.0)


def test_processes_of_one_user_are_limited_and_give_their_place_back() -> None:
    reporters = Reporters()
    processes = [Process(pid, 1, 1000) for pid in range(REPORTERS_PER_USER + 50)]
    for process in processes:
        reporters.add(process, REPORT, 0.0)
    other = Process(9999, 1, 1001)
    reporters.add(other, REPORT, 0.0)

    assert len(reporters.all()) == REPORTERS_PER_USER + 1
    assert reporters.results()["over_quota"] == 50

    reporters.forget([each for each in reporters.all() if each.process != other])
    reporters.add(processes[-1], REPORT, 1.0)
    assert {each.process for each in reporters.all()} == {other, processes[-1]}


def test_nothing_is_kept_of_users_who_are_gone() -> None:
    reporters = Reporters()
    for user in range(20_000):
        reporters.admit(user, 0.0)
    reporters.forget(set())

    assert not reporters._buckets
