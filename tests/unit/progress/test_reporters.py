"""No user can use up what is there for all."""

from __future__ import annotations

from exporter.progress.protocol import Report
from exporter.progress.reporters import (
    BURST,
    OWN_PLACES,
    REPORTERS,
    REPORTERS_PER_ACCOUNT,
    Process,
    Reporter,
    Reporters,
)

REPORT = Report(counters={"samples": 1.0})


def test_a_flood_of_one_user_is_cut_and_others_are_heard() -> None:
    reporters = Reporters()

    admitted = [reporters.admit("user 1000", 0.0) for _ in range(10_000)]

    assert sum(admitted) == BURST
    assert reporters.admit("user 1001", 0.0)
    assert reporters.results()["rate_limited"] == 10_000 - BURST
    assert reporters.admit("user 1000", 1.0)


def test_processes_of_one_user_are_limited_and_give_their_place_back() -> None:
    reporters = Reporters()
    processes = [Process(pid, 1, 1000) for pid in range(REPORTERS_PER_ACCOUNT + 50)]
    for process in processes:
        reporters.add(process, REPORT, 0.0)
    other = Process(9999, 1, 1001)
    reporters.add(other, REPORT, 0.0)

    assert len(reporters.all()) == REPORTERS_PER_ACCOUNT + 1
    assert reporters.results()["over_quota"] == 50

    reporters.forget([each for each in reporters.all() if each.process != other])
    reporters.add(processes[-1], REPORT, 1.0)
    assert {each.process for each in reporters.all()} == {other, processes[-1]}


def test_one_process_gives_one_place_back() -> None:
    reporters = Reporters()
    for pid in range(REPORTERS_PER_ACCOUNT):
        reporters.add(Process(pid, 1, 1000), REPORT, 0.0)
    reporters.forget(reporters.all()[:1])
    for pid in (9998, 9999):
        reporters.add(Process(pid, 1, 1000), REPORT, 1.0)

    assert (len(reporters.all()), reporters.results()["over_quota"]) == (REPORTERS_PER_ACCOUNT, 1)


def test_process_that_changes_its_account_keeps_its_pace() -> None:
    reporters = Reporters()
    for now, account in enumerate(("pod a", "pod b")):
        reporters.add(Process(7, 1, 1000, account), REPORT, float(now))

    (found,) = reporters.all()
    assert (found.process.account, found.earlier, found.earlier_time) == ("pod b", REPORT, 0.0)


def test_accounts_that_take_all_places_together_leave_others_their_own() -> None:
    """Of 16 pods of 256 processes each none was heard any more that came after them."""
    reporters = Reporters()
    for account in range(20):
        for number in range(REPORTERS_PER_ACCOUNT):
            pid = account * REPORTERS_PER_ACCOUNT + number
            reporters.add(Process(pid, 1, 0, f"pod {account}"), REPORT, 0.0)
    before = len(reporters.all())
    ranks = [Process(100_000 + number, 1, 0, "training") for number in range(OWN_PLACES + 1)]
    for rank in ranks:
        reporters.add(rank, REPORT, 0.0)

    assert [each.process for each in reporters.all()][before:] == ranks[:OWN_PLACES]
    assert before == REPORTERS + 4 * OWN_PLACES


def test_nothing_is_kept_of_users_who_are_gone() -> None:
    reporters = Reporters()
    for user in range(20_000):
        reporters.admit(f"user {user}", 0.0)
    reporters.forget(set())

    assert not reporters._buckets


def steps(number: float) -> Report:
    return Report(counters={"steps": number})


def test_pace_is_told_by_a_report_two_intervals_back_with_another_step() -> None:
    reporters, process = Reporters(), Process(71, 1, 1000)
    found: list[Reporter] = []
    for second, number in ((0.0, 1.0), (9.9, 2.0), (10.0, 2.0), (10.5, 3.0), (20.4, 4.0), (20.5, 5.0)):
        reporters.add(process, steps(number), second)
        found += reporters.all()

    assert [(each.report, each.time, each.earlier, each.earlier_time) for each in found] == [
        (steps(1.0), 0.0, steps(1.0), 0.0),
        (steps(2.0), 9.9, steps(1.0), 0.0),
        (steps(2.0), 10.0, steps(1.0), 0.0),  # no step since the last report
        (steps(3.0), 10.5, steps(2.0), 10.0),
        (steps(4.0), 20.4, steps(3.0), 10.5),
        (steps(5.0), 20.5, steps(4.0), 20.4),
    ]


def test_interval_of_who_reports_seldom_is_its_own() -> None:
    reporters, process = Reporters(), Process(71, 1, 1000)
    for second in (0.0, 100.0, 199.9):
        reporters.add(process, steps(second), second, 100.0)
        assert reporters.all()[0].earlier_time == 0.0
    reporters.add(process, steps(200.0), 200.0, 100.0)

    assert reporters.all()[0].earlier_time == 199.9


def test_first_steps_of_a_program_are_where_its_pace_begins() -> None:
    reporters, process = Reporters(), Process(71, 1, 1000)
    reporters.add(process, REPORT, 0.0)
    reporters.add(process, steps(1.0), 3.0)

    assert reporters.all() == (Reporter(process, steps(1.0), 3.0, steps(1.0), 3.0),)


def test_report_of_a_process_that_came_since_is_not_forgotten() -> None:
    reporters, process = Reporters(), Process(71, 1, 1000)
    reporters.add(process, REPORT, 0.0)
    counted = reporters.all()
    reporters.add(process, steps(1.0), 1.0)
    reporters.forget(counted)

    assert reporters.known(71, 1000) == process
    reporters.forget(reporters.all())
    assert reporters.known(71, 1000) is None


def test_process_that_becomes_another_user_is_the_same_and_gives_its_place_back() -> None:
    reporters = Reporters()
    for user, samples in ((0, 50.0), (1000, 60.0)):
        reporters.add(Process(7, 100, user), Report(counters={"samples": samples}), 0.0)
    (one,) = reporters.all()

    assert (one.process.user, one.report.counters) == (1000, {"samples": 60.0})
    assert reporters.known(7, 1000)
    assert dict(reporters._places) == {"user 1000": 1}
    reporters.forget([one])
    assert not reporters.all()
    assert not reporters._places
