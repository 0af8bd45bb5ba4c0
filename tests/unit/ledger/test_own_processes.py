"""Several processes of an owner on one GPU: what each of them does explains that GPU's waiting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.attribution.owner import Target
from exporter.core.units import BytesPerSecond
from exporter.host.model import HostSignals, ProcessSignals
from exporter.ledger.account import Allocation, Ledger, LedgerInput, Reading
from exporter.ledger.division import own_processes
from exporter.ledger.ledger import advance_ledger
from exporter.ledger.states.state import Evidence
from tests.unit.ledger.test_accusations import JOB, run, shares
from tests.unit.ledger.test_signatures import CALM, idle

SLEEPS = ProcessSignals(0.01, 0.0, receiving=0.0, polling=False)
BLOCKED = replace(SLEEPS, blocked=1.0)
RECEIVES = replace(SLEEPS, receiving=1.0)
COMPUTES = replace(SLEEPS, hottest_thread=1.0)
WRITES = replace(SLEEPS, read_bytes_per_second=BytesPerSecond(0.0), written_bytes_per_second=BytesPerSecond(1e9))
READS = replace(SLEEPS, read_bytes_per_second=BytesPerSecond(2e9), written_bytes_per_second=BytesPerSecond(0.0))
HAS_WRITTEN = replace(
    WRITES, reading_bytes_per_second=BytesPerSecond(0.0), writing_bytes_per_second=BytesPerSecond(0.0)
)
HAS_READ = replace(READS, reading_bytes_per_second=BytesPerSecond(0.0), writing_bytes_per_second=BytesPerSecond(0.0))
ON_CPU = replace(COMPUTES, read_bytes_per_second=BytesPerSecond(1e8), written_bytes_per_second=BytesPerSecond(1.05e8))
"""What it reads from one pipe it writes to another."""
BEHIND = replace(
    WRITES,
    hottest_thread=1.0,
    blocked=1.0,
    writing_bytes_per_second=BytesPerSecond(1e9),
    main_thread=1.0,
    main_writing_bytes_per_second=BytesPerSecond(0.0),
)
"""A thread of it writes a checkpoint to storage while the main one goes on."""
OF_OTHERS = 300
"""A process of the owner that is on another GPU."""


def waits(*processes: ProcessSignals, host: HostSignals = CALM) -> str:
    """The state of a GPU that these processes hold, and that has nothing to do for most of a cycle."""
    seen = dict(enumerate(processes, 100))
    reading = Reading(Target("GPU-0", 0, ""), idle(0.3), (Allocation(JOB, 1.0, tuple(seen)),))
    hosts = {JOB: replace(host, processes={**seen, OF_OTHERS: BLOCKED})}
    states = shares(advance_ledger(Ledger(), LedgerInput(time=0.0, seconds=1.0, readings=(reading,), hosts=hosts)))
    (found,) = states.keys() - {"computing"}
    assert states[found] == pytest.approx(0.7)
    return found


@pytest.mark.parametrize(
    ("processes", "state"),
    [
        ((SLEEPS, SLEEPS), "wait_other"),
        ((BLOCKED, BLOCKED), "wait_storage"),
        ((RECEIVES, RECEIVES), "wait_network"),
        ((SLEEPS, COMPUTES), "wait_cpu"),
        ((replace(BLOCKED, blocked=None), BLOCKED), "wait_storage"),
        ((replace(WRITES, blocked=1.0), replace(SLEEPS, blocked=1.0)), "wait_checkpoint"),
        ((replace(WRITES, blocked=1.0), replace(READS, blocked=1.0)), "wait_storage"),
        ((replace(SLEEPS, hottest_thread=None), COMPUTES), "wait_cpu"),
        ((replace(HAS_WRITTEN, hottest_thread=1.0),), "wait_cpu"),
        ((replace(HAS_WRITTEN, hottest_thread=1.0, writing_bytes_per_second=BytesPerSecond(1e9)),), "wait_checkpoint"),
        ((replace(HAS_WRITTEN, blocked=1.0),), "wait_checkpoint"),
        ((replace(HAS_WRITTEN, blocked=1.0, reading_bytes_per_second=BytesPerSecond(2e7)),), "wait_storage"),
        ((replace(HAS_READ, blocked=1.0, writing_bytes_per_second=BytesPerSecond(2e8)),), "wait_checkpoint"),
        ((ON_CPU,), "wait_cpu"),
        ((BEHIND,), "wait_cpu"),
        ((replace(BEHIND, main_thread=0.5),), "wait_checkpoint"),
        ((replace(BEHIND, main_writing_bytes_per_second=BytesPerSecond(1e9)),), "wait_checkpoint"),
        ((replace(BEHIND, main_writing_bytes_per_second=None),), "wait_checkpoint"),
        ((BEHIND, replace(BEHIND, main_thread=0.1)), "wait_checkpoint"),
        ((BEHIND, replace(BEHIND, main_thread=None)), "wait_checkpoint"),
        ((replace(READS, hottest_thread=1.0, blocked=1.0, main_thread=1.0),), "wait_cpu"),
    ],
)
def test_gpu_waits_for_what_its_processes_wait_for(processes: tuple[ProcessSignals, ...], state: str) -> None:
    assert waits(*processes) == state


def test_main_thread_that_may_only_poll_can_wait_for_the_storage_that_its_loader_reads() -> None:
    polls = replace(READS, hottest_thread=1.0, blocked=1.0, main_thread=1.0, polling=True)
    before = run([[idle(0.3)]] * 20)
    found = run([[idle(0.0)]] * 100, processes={100: polls}, ledger=before)

    assert shares(found, since=before)["wait_storage"] >= 0.9


def test_two_processes_have_the_rates_of_both_and_the_fullest_thread() -> None:
    one = ProcessSignals(
        hottest_thread=1.0,
        blocked=0.5,
        receiving=1.0,
        polling=True,
        stopped=True,
        read_bytes_per_second=BytesPerSecond(1),
        written_bytes_per_second=BytesPerSecond(2),
        reading_bytes_per_second=BytesPerSecond(3),
        writing_bytes_per_second=BytesPerSecond(4),
        main_thread=1.0,
        main_writing_bytes_per_second=BytesPerSecond(5),
        cpu=2.0,
        from_peer=True,
    )
    other = ProcessSignals(
        hottest_thread=0.5,
        blocked=0.0,
        receiving=0.0,
        polling=False,
        read_bytes_per_second=BytesPerSecond(10),
        written_bytes_per_second=BytesPerSecond(20),
        reading_bytes_per_second=BytesPerSecond(30),
        writing_bytes_per_second=BytesPerSecond(40),
        main_thread=0.25,
        main_writing_bytes_per_second=BytesPerSecond(50),
        cpu=0.5,
        computes=True,
    )
    both = ProcessSignals(
        hottest_thread=1.0,
        blocked=0.25,
        receiving=0.5,
        polling=True,
        read_bytes_per_second=BytesPerSecond(11),
        written_bytes_per_second=BytesPerSecond(22),
        reading_bytes_per_second=BytesPerSecond(33),
        writing_bytes_per_second=BytesPerSecond(44),
        main_thread=0.25,
        main_writing_bytes_per_second=BytesPerSecond(55),
        cpu=2.0,
        computes=True,
        from_peer=True,
    )
    host = replace(CALM, processes={1: one, 2: other, OF_OTHERS: BLOCKED})

    assert own_processes(Allocation(JOB, 1.0, (1, 2)), host) == both


@pytest.mark.parametrize("works", [1.0, 0.96])
@pytest.mark.parametrize("first", ["polls", "works"])
def test_a_polling_process_hides_none_that_works_beside_it(works: float, first: str) -> None:
    """In whatever order, and whichever of the two had a tick more."""
    both = [ProcessSignals(1.0, 0.0, 0.0, polling=True), ProcessSignals(works, 0.0, 0.0, polling=False)]
    if first == "works":
        both.reverse()
    reading = Reading(Target("GPU-0", 0, ""), idle(0.0), (Allocation(JOB, 1.0, (100, 101)),))
    hosts = {JOB: replace(CALM, processes=dict(enumerate(both, 100)))}
    ledger = Ledger()
    for _ in range(100):
        ledger = advance_ledger(ledger, LedgerInput(time=0.0, seconds=1.0, readings=(reading,), hosts=hosts))

    assert shares(ledger) == {"wait_cpu": pytest.approx(1.0)}


def test_what_is_known_of_the_owner_alone_stands_in_where_no_process_was_looked_at() -> None:
    reading = Reading(Target("GPU-0", 0, ""), idle(0.3), (Allocation(JOB, 1.0, (7,)),))
    blocked = replace(CALM, blocked_threads=1.0, processes={OF_OTHERS: SLEEPS})
    found = advance_ledger(Ledger(), LedgerInput(time=0.0, seconds=1.0, readings=(reading,), hosts={JOB: blocked}))

    assert shares(found)["wait_storage"] == pytest.approx(0.7)


@pytest.mark.parametrize("host", [CALM, replace(CALM, cpu_pressure=0.9), replace(CALM, cpu_of_limit=1.0)])
def test_rank_too_cold_to_be_looked_at_is_not_short_of_the_cpu_that_another_one_uses(host: HostSignals) -> None:
    """Of a workload with many processes the hottest are read in each cycle."""
    busy = replace(host, hottest_thread=1.0, processes={100: COMPUTES})
    found = run([[idle(0.2), idle(0.2)]] * 50, host=busy, processes=busy.processes)

    assert shares(found, 0)["wait_cpu"] == pytest.approx(0.8)
    assert shares(found, 1)["wait_other"] == pytest.approx(0.8)


def test_gpu_that_misses_a_cycle_can_be_diagnosed_as_before() -> None:
    read, missed = (
        (Reading(Target("GPU-0", 0, ""), signals, (Allocation(JOB, 1.0, (7,)),)),) for signals in (idle(0.3), None)
    )
    first = advance_ledger(Ledger(), LedgerInput(time=0.0, seconds=1.0, readings=missed))
    second = advance_ledger(first, LedgerInput(time=1.0, seconds=1.0, readings=read))
    third = advance_ledger(second, LedgerInput(time=2.0, seconds=1.0, readings=missed))

    assert [each.targets["GPU-0"].signals for each in (first, second, third)] == [None, idle(0.3), idle(0.3)]


@pytest.mark.parametrize(
    ("busy", "activity", "share"), [(0.5, 0.25, 0.5), (0.5, 0.75, 1.0), (0.0, 0.25, None), (0.5, None, None)]
)
def test_activity_is_a_share_of_the_busy_time_and_never_more_than_all(
    busy: float, activity: float | None, share: float | None
) -> None:
    assert Evidence(idle(busy), busy).of_busy(activity) == share
