"""What the ledger books in single, plain cases."""

from __future__ import annotations

import pytest

from exporter.attribution.owner import Owner, Target
from exporter.host.model import HostSignals, ProcessSignals
from exporter.ledger.account import ZERO, Allocation, Ledger, LedgerInput, Reading
from exporter.ledger.history import next_clocks
from exporter.ledger.ledger import advance_ledger, drop_stale
from exporter.ledger.states import STATES
from exporter.ledger.states.state import ClockHistory, Signals

ALICE, BOB = Owner(workload="a/alice", kind="pod"), Owner(workload="b/bob", kind="pod")
GPU, PEER = Target("GPU-0", 0, "0000:01:00.0"), Target("GPU-1", 1, "0000:02:00.0")


def instance(number: int, share: float) -> Target:
    return Target(f"MIG-{number}", 0, "0000:01:00.0", None, "GPU-0", number, 0, share=share)


def book(*readings: Reading, seconds: float = 1.0, ledger: Ledger | None = None, **rest: object) -> Ledger:
    return advance_ledger(ledger or Ledger(), LedgerInput(time=1000.0, seconds=seconds, readings=readings, **rest))  # type: ignore[arg-type]


def lately(*targets: Target) -> Ledger:
    """Alice ran a kernel on each of them in a cycle of no length."""
    readings = (Reading(target, Signals(busy=1.0), (Allocation(ALICE, 1.0, (1,)),)) for target in targets)
    return book(*readings, seconds=0.0)


def states(seconds: tuple[float, ...]) -> dict[str, float]:
    """What is not zero, rounded."""
    return {state: round(number, 9) for state, number in zip(STATES, seconds, strict=True) if round(number, 9)}


def test_first_cycle_shows_every_counter_at_zero() -> None:
    ledger = book(Reading(GPU, Signals(busy=1.0), (Allocation(ALICE, 1.0, (1,)),)), seconds=0.0)

    assert ledger.targets["GPU-0"].seconds == ZERO
    assert ledger.owners[ALICE].seconds == ZERO


def test_nobody_holds_it() -> None:
    assert states(book(Reading(GPU, Signals(busy=0.0))).targets["GPU-0"].seconds) == {"free": 1.0}


def test_held_with_no_process_on_it() -> None:
    ledger = book(Reading(GPU, Signals(busy=0.0), (Allocation(ALICE),)))

    assert states(ledger.owners[ALICE].seconds) == {"allocated_idle": 1.0}


def test_unreadable_is_unobserved_for_gpu_and_owner() -> None:
    ledger = book(Reading(GPU, None, (Allocation(ALICE, 1.0, (1,)),)))

    assert states(ledger.targets["GPU-0"].seconds) == {"unobserved": 1.0}
    assert states(ledger.owners[ALICE].seconds) == {"unobserved": 1.0}


def test_long_gap_is_unobserved_and_does_not_move_the_idle_clock() -> None:
    reading = Reading(GPU, Signals(busy=0.0), (Allocation(ALICE, 1.0, (1,)),))
    ledger = book(reading, seconds=60.0, ledger=book(reading))

    assert states(ledger.targets["GPU-0"].seconds) == {"unobserved": 60.0, "wait_other": 1.0}
    assert ledger.owners[ALICE].idle_seconds == 1.0


def test_partly_busy_cycle_is_split() -> None:
    ledger = book(Reading(GPU, Signals(busy=0.6), (Allocation(ALICE, 1.0, (1,)),)))

    assert states(ledger.owners[ALICE].seconds) == {"computing": 0.6, "wait_other": 0.4}


def test_busy_before_any_owner_is_known_is_busy() -> None:
    assert states(book(Reading(GPU, Signals(busy=0.3))).targets["GPU-0"].seconds) == {"computing": 0.3, "free": 0.7}


def test_utilization_unknown_but_held_by_a_running_process_is_unobserved() -> None:
    reading = Reading(GPU, Signals(), (Allocation(ALICE, 0.5, (1,)), Allocation(BOB, 0.25)))

    assert states(book(reading).targets["GPU-0"].seconds) == {"unobserved": 0.5, "allocated_idle": 0.25, "free": 0.25}


def test_shared_gpu_is_split_by_the_processes_own_utilization() -> None:
    reading = Reading(GPU, Signals(busy=0.8), (Allocation(ALICE, 0.5, (1,), 0.6), Allocation(BOB, 0.5, (2,), 0.2)))
    ledger = book(reading)

    assert states(ledger.owners[ALICE].seconds) == {"computing": 0.5}
    assert states(ledger.owners[BOB].seconds) == {"computing": 0.2, "wait_other": 0.3}
    assert states(ledger.targets["GPU-0"].seconds) == {"computing": 0.8, "wait_other": 0.2}


def test_shared_gpu_is_split_evenly_where_the_driver_does_not_tell() -> None:
    reading = Reading(GPU, Signals(busy=0.8), (Allocation(ALICE, 0.5, (1,)), Allocation(BOB, 0.5, (2,))))
    ledger = book(reading)

    assert (
        states(ledger.owners[ALICE].seconds)
        == states(ledger.owners[BOB].seconds)
        == {
            "computing": 0.4,
            "wait_other": 0.1,
        }
    )


def test_shared_gpu_charges_nothing_busy_to_who_has_no_process() -> None:
    ledger = book(Reading(GPU, Signals(busy=0.4), (Allocation(ALICE, 0.5, (1,)), Allocation(BOB, 0.5))))

    assert states(ledger.owners[ALICE].seconds) == {"computing": 0.4, "wait_other": 0.1}
    assert states(ledger.owners[BOB].seconds) == {"allocated_idle": 0.5}


def test_instances_make_up_their_gpu() -> None:
    ledger = book(
        Reading(GPU, Signals()),
        Reading(instance(1, 3 / 7), Signals(busy=1.0), (Allocation(ALICE, 1.0, (1,)),)),
        Reading(instance(2, 2 / 7), Signals(busy=0.0), (Allocation(BOB),)),
    )

    assert states(ledger.targets["MIG-1"].seconds) == {"computing": 1.0}
    assert states(ledger.owners[ALICE].seconds) == {"computing": round(3 / 7, 9)}
    assert states(ledger.targets["GPU-0"].seconds) == {
        "free": round(2 / 7, 9),
        "allocated_idle": round(2 / 7, 9),
        "computing": round(3 / 7, 9),
    }


def test_energy_of_a_gpu_goes_to_its_holder() -> None:
    reading = Reading(GPU, Signals(busy=0.5), (Allocation(ALICE, 1.0, (1,)),), joules=300.0)

    assert book(reading).owners[ALICE].joules == pytest.approx(300.0)


def test_energy_of_instances_follows_what_runs() -> None:
    ledger = book(
        Reading(GPU, Signals(), joules=700.0),
        Reading(instance(1, 0.5), Signals(busy=1.0), (Allocation(ALICE, 1.0, (1,)),)),
        Reading(instance(2, 0.5), Signals(busy=0.0), (Allocation(BOB),)),
    )

    assert ledger.owners[ALICE].joules == pytest.approx(525.0)
    assert ledger.owners[BOB].joules == pytest.approx(175.0)


def test_idle_clock_runs_while_all_gpus_are_idle_and_stops_with_one() -> None:
    allocation = (Allocation(ALICE, 1.0, (1,)),)
    idle = (Reading(GPU, Signals(busy=0.0), allocation), Reading(PEER, Signals(busy=0.0), allocation))
    ledger = book(*idle, ledger=book(*idle))
    active = book(idle[0], Reading(PEER, Signals(busy=0.5), allocation), ledger=ledger)

    assert ledger.owners[ALICE].idle_seconds == 2.0
    assert active.owners[ALICE].idle_seconds == 0.0


def test_owner_of_gpus_that_report_no_use_has_no_idle_clock() -> None:
    """MIG instances before Hopper are so: 0 would say that it did something just now."""
    unknown = Reading(GPU, Signals(), (Allocation(ALICE, 1.0, (1,)),))
    ledger = book(unknown, ledger=book(unknown))

    assert ledger.owners[ALICE].idle_seconds is None


def first_kernel(start: float, cycles: tuple[tuple[float, float], ...]) -> float | None:
    ledger = Ledger()
    for time, busy in cycles:
        reading = Reading(GPU, Signals(busy=busy), (Allocation(ALICE, 1.0, (1,)),))
        ledger = advance_ledger(ledger, LedgerInput(time=time, seconds=1.0, readings=(reading,), starts={ALICE: start}))
    return ledger.owners[ALICE].first_kernel_seconds


def test_first_kernel_is_counted_from_the_start_of_the_workload() -> None:
    assert first_kernel(1001.0, ((1000.0, 0.0), (1031.0, 0.0), (1041.0, 0.2), (1051.0, 1.0))) == 40.0


def test_first_kernel_is_unknown_where_the_workload_is_older_than_the_exporter() -> None:
    assert first_kernel(900.0, ((1000.0, 0.0), (1001.0, 1.0))) is None


def test_start_of_a_workload_stays_when_its_oldest_process_ends() -> None:
    reading = Reading(GPU, Signals(busy=0.0), (Allocation(ALICE, 1.0, (1,)),))
    ledger = book(reading, ledger=book(reading, starts={ALICE: 500.0}), starts={ALICE: 800.0})

    assert ledger.owners[ALICE].start_time == 500.0


def test_owner_that_left_is_kept_for_the_retention_and_then_dropped() -> None:
    ledger = book(Reading(GPU, Signals(busy=1.0), (Allocation(ALICE, 1.0, (1,)),)))
    for _ in range(10):
        ledger = book(Reading(GPU, Signals(busy=0.0)), ledger=ledger)

    assert states(drop_stale(ledger, 10.0).owners[ALICE].seconds) == {"computing": 1.0}
    assert ALICE not in drop_stale(ledger, 9.5).owners


def test_waiting_gpu_is_judged_by_its_own_processes() -> None:
    """The sibling's launching thread is full; that says nothing of why this one waits."""
    host = HostSignals(hottest_thread=1.0, processes={1: ProcessSignals(0.02, False), 2: ProcessSignals(1.0, False)})  # noqa: FBT003
    ledger = book(
        Reading(GPU, Signals(busy=0.1), (Allocation(ALICE, 1.0, (1,)),)),
        Reading(PEER, Signals(busy=1.0), (Allocation(ALICE, 1.0, (2,)),)),
        hosts={ALICE: host},
        ledger=lately(GPU),
    )

    assert states(ledger.targets["GPU-0"].seconds) == {"wait_other": 0.9, "computing": 0.1}


def test_gpu_of_two_processes_waits_for_what_the_busier_one_does() -> None:
    reading = Reading(GPU, Signals(busy=0.3), (Allocation(ALICE, 1.0, (1, 2)),))
    host = HostSignals(processes={1: ProcessSignals(0.02, 0.0), 2: ProcessSignals(1.0, 0.0)})

    assert states(book(reading, hosts={ALICE: host}).owners[ALICE].seconds) == {"computing": 0.3, "wait_cpu": 0.7}


@pytest.mark.parametrize(
    ("written", "of_all", "state"), [(5e7, 0.0, "wait_checkpoint"), (None, 2e9, "wait_checkpoint")]
)
def test_gpu_of_two_processes_waits_for_what_both_write(written: float | None, of_all: float, state: str) -> None:
    """Half of what makes a checkpoint each; where their own cannot be read, what the owner writes."""
    own = ProcessSignals(
        0.01, 0.0, 0.0, polling=False, read_bytes_per_second=written and 0.0, written_bytes_per_second=written
    )
    host = HostSignals(
        io_pressure=0.9, read_bytes_per_second=0.0, written_bytes_per_second=of_all, processes={1: own, 2: own}
    )
    reading = Reading(GPU, Signals(busy=0.2), (Allocation(ALICE, 1.0, (1, 2)),))

    assert states(book(reading, hosts={ALICE: host}).owners[ALICE].seconds) == {"computing": 0.2, state: 0.8}


@pytest.mark.parametrize(("seconds", "hertz"), [(0.0, 2e9), (1800.0, 1.5e9), (3600.0, 1e9), (7200.0, 1e9)])
def test_highest_clock_fades_in_an_hour_and_no_lower_than_the_clock(seconds: float, hertz: float) -> None:
    now = Signals(busy=1.0, sm_clock=1e9, throttled_thermal=0.0, throttled_power_brake=0.0)

    assert next_clocks(ClockHistory(free=2e9), now, seconds).free == hertz


def test_cpu_pressure_of_the_working_rank_is_not_the_waiting_ones() -> None:
    processes = {1: ProcessSignals(0.02, False), 2: ProcessSignals(0.8, False)}  # noqa: FBT003
    readings = (
        Reading(GPU, Signals(busy=0.0), (Allocation(ALICE, 1.0, (1,)),)),
        Reading(PEER, Signals(busy=1.0), (Allocation(ALICE, 1.0, (2,)),)),
    )
    hosts = {ALICE: HostSignals(cpu_pressure=0.8, processes=processes)}
    ledger = book(*readings, hosts=hosts, ledger=lately(GPU))
    alone = book(readings[0], hosts=hosts)

    assert states(ledger.owners[ALICE].seconds) == {"wait_other": 1.0, "computing": 1.0}
    assert states(alone.owners[ALICE].seconds) == {"wait_cpu": 1.0}


def test_gpus_that_wait_together_do_not_wait_for_each_other() -> None:
    readings = [
        Reading(target, Signals(busy=0.6), (Allocation(ALICE, 1.0, (pid,)),)) for pid, target in enumerate((GPU, PEER))
    ]

    assert states(book(*readings).owners[ALICE].seconds) == {"computing": 1.2, "wait_other": 0.8}
