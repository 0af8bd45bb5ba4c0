"""What an owner's host side did between two readings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.core.units import BytesPerSecond
from exporter.host.model import HostSignals, HostUsage
from exporter.host.task import IoRates, SchedStat, Task
from exporter.sampling.usage.signals import Counters, signals

ZERO = BytesPerSecond(0.0)


def task(
    cpu: float,
    *,
    start: int = 1,
    blocked: bool = False,
    delay: float | None = None,
    ready: SchedStat | None = None,
    stopped: bool = False,
) -> Task:
    return Task(start, cpu, blocked, delay, ready=ready, stopped=stopped)


def usage(used: float, limit: float | None = None, **pressure: float) -> HostUsage:
    return HostUsage(cpu_seconds=used, cpu_limit_cores=limit, pressure_seconds=pressure)


def between(before: Counters, after: Counters, seconds: float = 2.0) -> HostSignals:
    return signals(before, after, seconds, cores=8)


def test_pressure_is_the_share_of_the_cycle() -> None:
    found = between(Counters(usage(0, io=10.0, cpu=0)), Counters(usage(0, io=11.0, cpu=4.0)))

    assert (found.io_pressure, found.cpu_pressure) == (0.5, 1.0)


def test_cpu_is_compared_with_the_limit_else_with_the_node() -> None:
    assert between(Counters(usage(0)), Counters(usage(8, limit=4))).cpu_of_limit == 1.0
    assert between(Counters(usage(0)), Counters(usage(8))).cpu_of_limit == 0.5


def test_hottest_thread_of_each_process_and_of_all() -> None:
    before = Counters(tasks={1: {"a": task(1.0), "b": task(0.0)}, 2: {"c": task(5.0)}})
    after = Counters(tasks={1: {"a": task(1.2), "b": task(2.0)}, 2: {"c": task(5.1)}})

    found = between(before, after)

    assert found.hottest_thread == 1.0
    assert {pid: round(each.hottest_thread or 0, 3) for pid, each in found.processes.items()} == {1: 1.0, 2: 0.05}


def test_what_all_threads_of_a_process_used_is_also_of_those_that_are_not_watched() -> None:
    tasks = {1: {"a": task(1.0)}, 2: {"b": task(1.0)}}
    found = between(Counters(tasks=tasks, cpu_seconds={1: 10.0}), Counters(tasks=tasks, cpu_seconds={1: 13.0, 2: 1.0}))

    assert {pid: each.cpu for pid, each in found.processes.items()} == {1: 1.5, 2: None}


def test_processes_that_it_started_and_that_ended_are_part_of_what_a_process_used() -> None:
    """Its own threads used 0.4 of a CPU, a child 0.2, and others that ended lately 0.3. The second started none."""
    before = Counters(tasks={1: {"1/task/1": task(0.0), "9": task(0.0)}, 2: {}}, cpu_seconds={1: 0.0, 2: 0.0})
    main = task(0.5)._replace(started_cpu=0.3)
    after = Counters(tasks={1: {"1/task/1": main, "9": task(0.4)}, 2: {}}, cpu_seconds={1: 0.8, 2: 1.0})

    found = between(before, after).processes
    assert found[1].tree_cpu == pytest.approx(0.9)
    assert found[2].tree_cpu is None


def test_thread_that_gets_no_cpu_though_ready_counts_as_full() -> None:
    before, after = Counters(tasks={1: {"a": task(0, delay=0)}}), Counters(tasks={1: {"a": task(0.4, delay=1.5)}})

    assert round(between(before, after).hottest_thread or 0, 3) == 0.95


def test_thread_that_stood_ready_at_both_looks_and_never_got_a_cpu_counts_as_full() -> None:
    """The kernel adds what it waited to its figures only once it has a CPU."""
    stood = task(3.0, delay=1.0, ready=SchedStat(3_000_000_000, 1_000_000_000, 7))
    found = between(Counters(tasks={1: {"a": stood}}), Counters(tasks={1: {"a": stood}}))
    assert (found.hottest_thread, found.cpu_pressure) == (1.0, 1.0)
    assert found.polling is False

    for later in (
        task(3.0, delay=1.0),  # it sleeps now
        task(3.0, delay=1.0, ready=SchedStat(3_001_000_000, 1_000_000_000, 7)),  # it ran for a moment, and slept
        task(3.0, delay=1.0, ready=SchedStat(3_000_000_000, 1_000_000_000, 8)),
    ):
        found = between(Counters(tasks={1: {"a": stood}}), Counters(tasks={1: {"a": later}}))
        assert (found.hottest_thread, found.cpu_pressure) == (0.0, 0.0)


def test_thread_that_spins_hides_none_that_works_beside_it() -> None:
    """An idle pool that waits for work on its CPUs, beside the thread that takes memory, whatever the ticks say."""
    spins, works = task(0), task(0)
    for used in (1.94, 2.0, 2.04):
        after = {"a": task(2.0), "b": works._replace(cpu_seconds=used, minor_faults=9000)}
        for tasks in (after, dict(reversed(after.items()))):
            found = between(Counters(tasks={1: {"a": spins, "b": works}}), Counters(tasks={1: tasks}))
            assert (found.polling, found.processes[1].polling) == (False, False)

    found = between(
        Counters(tasks={1: {"a": spins}, 2: {"b": works}}), Counters(tasks={1: {"a": task(2)}, 2: {"b": after["b"]}})
    )
    assert found.polling is False


@pytest.mark.parametrize(("reading", "polling"), [(0.0, True), (1e6, False)])
def test_thread_that_reads_no_more_polls_whatever_it_read_lately(reading: float, *, polling: bool) -> None:
    spins = task(2.0)._replace(io=IoRates(BytesPerSecond(1e8), ZERO, BytesPerSecond(reading), ZERO))
    found = between(Counters(tasks={1: {"a": task(0)}}), Counters(tasks={1: {"a": spins}}))

    assert found.polling is polling


def test_main_thread_is_told_apart_from_the_others() -> None:
    writes = IoRates(ZERO, ZERO, ZERO, BytesPerSecond(3e6))
    before = Counters(tasks={1: {"1/task/1": task(0.0), "1/task/2": task(0.0)}, 3: {"3/task/4": task(0.0)}})
    main = task(1.0)._replace(own_io=writes)
    found = between(before, Counters(tasks={1: {"1/task/1": main, "1/task/2": task(2.0)}, 3: {"3/task/4": task(2.0)}}))

    assert (found.processes[1].main_thread, found.processes[1].hottest_thread) == (0.5, 1.0)
    assert found.processes[1].main_writing_bytes_per_second == 3e6
    assert found.processes[3].main_thread is None


def test_reused_thread_id_says_nothing_yet() -> None:
    before, after = Counters(tasks={1: {"a": task(1.0)}}), Counters(tasks={1: {"a": task(3.0, start=9)}})

    assert between(before, after).hottest_thread is None


def test_blocked_is_a_share_of_the_processes() -> None:
    after = Counters(tasks={1: {"a": task(0), "b": task(0, blocked=True)}, 2: {"c": task(0)}})

    assert between(Counters(), after).blocked_threads == 0.5


def test_run_delay_stands_in_for_cpu_pressure_without_psi() -> None:
    before = Counters(tasks={1: {"a": task(0, delay=1.0), "b": task(0, delay=0.0)}})
    after = Counters(tasks={1: {"a": task(0, delay=2.5), "b": task(0, delay=0.1)}})

    assert between(before, after).cpu_pressure == 0.75


def test_counter_that_began_anew_says_nothing() -> None:
    found = between(Counters(usage(100, io=50)), Counters(usage(1, io=2)))

    assert (found.cpu_of_limit, found.io_pressure) == (None, None)


number = st.floats(0, 1e9)
counters = st.builds(
    Counters,
    st.builds(
        HostUsage,
        cpu_seconds=st.none() | number,
        cpu_limit_cores=st.none() | st.floats(0.1, 64),
        read_bytes=st.none() | st.integers(0, 10**15),
        pressure_seconds=st.dictionaries(st.sampled_from(("cpu", "io", "memory")), number),
    ),
    st.dictionaries(
        st.integers(1, 3),
        st.dictionaries(st.sampled_from("ab"), st.builds(Task, st.integers(0, 1), number, st.booleans(), number)),
    ),
)


@given(counters, counters, st.floats(-1, 100))
def test_shares_are_shares(before: Counters, after: Counters, seconds: float) -> None:
    found = between(before, after, seconds)

    shares = (found.cpu_pressure, found.io_pressure, found.hottest_thread, found.blocked_threads)
    assert all(share is None or 0 <= share <= 1 for share in shares)


def test_process_is_stopped_where_all_its_threads_are() -> None:
    still, runs = task(1.0, stopped=True), task(1.0)
    told = between(
        Counters(),
        Counters(
            tasks={
                1: {"1/task/1": still, "1/task/2": still, "7": runs},
                2: {"2/task/2": still, "2/task/3": runs},
                3: {"7": still},
            }
        ),
    )
    assert {pid: each.stopped for pid, each in told.processes.items()} == {1: True, 2: False, 3: False}
