"""Workloads that do two things at once, made to fool the ledger: each GPU has its own truth."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.attribution.owner import Owner, Target
from exporter.core.units import BytesPerSecond
from exporter.host.model import HostSignals, ProcessSignals
from exporter.ledger.account import Allocation, Ledger, LedgerInput, Reading
from exporter.ledger.division import OwnerUsage
from exporter.ledger.ledger import advance_ledger
from exporter.ledger.peers import kept_part
from exporter.ledger.ranks import _idled_fraction, _Rank, _work_level
from exporter.ledger.states import INDEX, STATES
from exporter.ledger.states.state import RankActivity
from tests.unit.ledger.test_accusations import JOB, NOTHING, RECEIVES, SLEEPS, SPINS, run, shares, straggling
from tests.unit.ledger.test_signatures import CALM, HOPPER, idle

READS = ProcessSignals(0.2, 1.0, receiving=0.0, polling=False)
"""In D state; how much it reads and writes is not told, as to an exporter without capabilities."""


def test_replicas_of_a_service_that_get_no_request_wait_for_none_of_the_others() -> None:
    """Four replicas in one pod, and a client that always asks the first."""
    before = run([[HOPPER] * 4] * 20, work="service")
    found = run([[idle(0.9), NOTHING, NOTHING, idle(0.1)]] * 100, work="service", ledger=before)

    assert all(shares(found, gpu, before)["wait_requests"] >= 0.8 for gpu in (1, 2, 3))
    assert all("wait_peer" not in shares(found, gpu, before) for gpu in range(4))
    assert not any(straggling(found).values())


def test_second_gpu_of_a_notebook_waits_for_its_user() -> None:
    before = run([[HOPPER] * 2] * 20, work="interactive")
    found = run([[HOPPER, NOTHING]] * 100, work="interactive", ledger=before)

    assert shares(found, 1, before) == {"wait_user": pytest.approx(1.0)}
    assert not any(straggling(found).values())


@pytest.mark.parametrize("waits", [SLEEPS, RECEIVES])
def test_ranks_that_wait_for_an_evaluation_do_not_wait_for_the_storage_it_reads(waits: ProcessSignals) -> None:
    """All tasks of the job that want to run are stalled: the one that reads. The others sleep until it comes."""
    before = run([[HOPPER] * 4] * 50)
    stalled = replace(CALM, io_pressure=0.9, io_full_pressure=0.88)
    processes = {100: READS, 101: waits, 102: waits, 103: waits}
    found = run([[idle(0.3), NOTHING, NOTHING, NOTHING]] * 100, processes=processes, host=stalled, ledger=before)

    assert shares(found, 0, before)["wait_storage"] == pytest.approx(0.7)
    for gpu in (1, 2, 3):
        assert shares(found, gpu, before).get("wait_storage", 0.0) <= 0.02


@pytest.mark.parametrize("interval", [1.0, 15.0])
def test_ranks_that_read_in_turns_all_wait_for_storage(interval: float) -> None:
    """Each is seen in D state in one cycle of three, never two at once: the pressure is everybody's."""
    stalled = replace(CALM, io_pressure=0.9, io_full_pressure=0.88)
    calm = replace(READS, blocked=0.0)
    found = run([[HOPPER] * 3] * 50, interval=interval)
    before = found
    for turn in range(120):
        processes = {100 + rank: READS if turn % 3 == rank else calm for rank in range(3)}
        found = run([[idle(0.2)] * 3], processes=processes, host=stalled, ledger=found, interval=interval)

    assert all(shares(found, gpu, before)["wait_storage"] >= 0.75 for gpu in range(3))


def test_gpu_that_is_never_used_holds_nobody_up() -> None:
    """Three GPUs: two compute in turns of a minute, the third never."""
    minutes = [[HOPPER, NOTHING, NOTHING]] * 60 + [[NOTHING, HOPPER, NOTHING]] * 60
    found = run(minutes * 3)

    assert shares(found, 2)["allocated_unused"] >= 0.9
    assert straggling(found)["GPU-2"] == pytest.approx(0.0, abs=10.0)
    assert all(shares(found, gpu)["wait_peer"] >= 0.3 for gpu in (0, 1))


@pytest.mark.parametrize(
    ("loads", "state"),
    [
        (ProcessSignals(0.6, 0.0, receiving=0.0, polling=False), "wait_other"),
        (
            ProcessSignals(0.2, 0.0, receiving=0.0, polling=False, reading_bytes_per_second=BytesPerSecond(2e7)),
            "wait_other",
        ),
        (
            ProcessSignals(0.2, 0.0, receiving=0.0, polling=False, writing_bytes_per_second=BytesPerSecond(2e7)),
            "wait_other",
        ),
        (ProcessSignals(0.2, 0.0, receiving=0.0, polling=False, cpu=0.9), "wait_other"),  # six threads do it
        (ProcessSignals(0.2, 0.0, receiving=0.0, polling=True, cpu=0.9), "allocated_unused"),
        (ProcessSignals(0.2, 0.0, receiving=0.0, polling=False, cpu=0.4), "allocated_unused"),
        (ProcessSignals(0.6, 0.0, receiving=0.0, polling=True), "allocated_unused"),
        (ProcessSignals(0.2, 0.0, receiving=0.0, polling=False), "allocated_unused"),
    ],
)
def test_program_that_loads_its_model_is_not_told_to_release_the_gpu(loads: ProcessSignals, state: str) -> None:
    """It downloads it, or reads and unpacks it in turns: neither the disk nor the CPU explains most of a cycle."""
    begun = run([[NOTHING]] * 20, processes={100: loads})
    loaded = run([[NOTHING]] * 500, processes={100: loads}, ledger=begun)
    forgotten = run([[NOTHING]] * 1000, processes={100: loads}, ledger=loaded)

    assert shares(loaded, since=begun) == {state: pytest.approx(1.0)}
    assert shares(forgotten, since=loaded)["allocated_unused"] >= 0.9
    assert shares(run([[HOPPER, NOTHING]] * 100, processes={101: loads}), 1)["allocated_unused"] >= 0.8


@pytest.mark.parametrize(("hottest", "state"), [(0.0, "wait_other"), (0.03, "wait_network"), (None, "wait_network")])
def test_what_a_sidecar_downloads_does_not_keep_a_sleeping_program(hottest: float | None, state: str) -> None:
    """The containers of a pod share its network: the counter is everybody's, the CPU the program's own."""
    own = ProcessSignals(hottest, 0.0, receiving=0.0, polling=False)
    found = run([[idle(0.2)]] * 100, processes={100: own}, host=replace(CALM, network_bytes_per_second=9e7))

    assert shares(found)[state] == pytest.approx(0.8)


def test_suspended_job_is_accused_of_nothing() -> None:
    """`scontrol suspend` stops every process: no kernel, no CPU, nobody blocked. Who runs it cannot help that."""
    before = run([[HOPPER] * 2] * 50)
    stopped = ProcessSignals(0.0, 0.0, receiving=0.0, polling=True, stopped=True)
    found = run([[NOTHING] * 2] * 1000, processes={100: stopped, 101: stopped}, ledger=before)

    assert [shares(found, gpu, before) for gpu in (0, 1)] == [{"wait_other": pytest.approx(1.0)}] * 2
    assert not any(straggling(found).values())


def test_rank_under_a_debugger_waits_for_none_of_what_the_others_do() -> None:
    """A breakpoint in one of two ranks: the other computes, and a sidecar keeps disk, CPU and network busy."""
    before = run([[HOPPER] * 2] * 50)
    stopped = ProcessSignals(0.0, 0.0, receiving=0.0, stopped=True)
    pressed = replace(CALM, cpu_pressure=0.9, io_pressure=0.9, io_full_pressure=0.9, cpu_of_limit=1.0)
    found = run(
        [[HOPPER, NOTHING]] * 100,
        processes={101: stopped},
        host=pressed,
        spread=True,
        slow_ports=["GPU-1"],
        ledger=before,
    )

    assert shares(found, 1, before) == {"wait_other": pytest.approx(1.0)}


def test_gpu_that_encodes_video_without_a_kernel_is_not_unused() -> None:
    found = run([[replace(NOTHING, engine_active=0.9), NOTHING]] * 100, processes={100: SLEEPS, 101: SLEEPS})

    assert shares(found, 0) == {"wait_other": pytest.approx(1.0)}
    assert shares(found, 1)["allocated_unused"] >= 0.9


def test_gpus_that_the_others_never_needed_are_unused_and_hide_no_hang() -> None:
    """Eight GPUs: five train, three never ran a kernel. After a quarter of an hour the five hang."""
    before = run([[HOPPER] * 5 + [NOTHING] * 3] * 900)
    found = run([[SPINS] * 5 + [NOTHING] * 3] * 600, ledger=before)

    assert [shares(found, gpu, before) for gpu in range(5)] == [
        {"wait_collective": pytest.approx(1.0, abs=0.01), "possible_spin": pytest.approx(0.0, abs=0.01)}
    ] * 5
    assert [shares(found, gpu, before) for gpu in range(5, 8)] == [{"allocated_unused": pytest.approx(1.0)}] * 3
    assert not any(straggling(found).values())


@pytest.mark.parametrize(("ran_before", "named"), [(False, 0.0), (True, 60.0)])
def test_gpu_without_a_process_that_the_others_never_needed_is_not_who_they_hang_for(
    *, ran_before: bool, named: float
) -> None:
    """Two of three GPUs train, and then hang. The third has no process: it never had one, or its rank has crashed."""
    ledger = run([[HOPPER] * 3]) if ran_before else Ledger()
    for seconds, signals in ((900, HOPPER), (60, SPINS)):
        readings = tuple(
            Reading(Target(f"GPU-{gpu}", gpu, ""), each, (Allocation(JOB, 1.0, pids),))
            for gpu, (each, pids) in enumerate([(signals, (100,)), (signals, (101,)), (NOTHING, ())])
        )
        for _ in range(seconds):
            ledger = advance_ledger(ledger, LedgerInput(time=0.0, seconds=1.0, readings=readings, hosts={JOB: CALM}))

    assert straggling(ledger)["GPU-2"] == pytest.approx(named, abs=5)


def test_rank_that_loads_while_the_others_warm_up_is_the_one_they_wait_for() -> None:
    before = run([[HOPPER] * 3 + [NOTHING]] * 60)
    found = run([[SPINS] * 3 + [NOTHING]] * 600, ledger=before)

    assert shares(found, 3, before).get("allocated_unused", 0.0) <= 0.01
    assert straggling(found)["GPU-3"] == pytest.approx(600, abs=6)


@pytest.mark.parametrize(("work", "state"), [("service", "wait_requests"), ("interactive", "wait_user")])
def test_ranks_that_spin_until_the_first_one_has_a_request_wait_for_it_as_well(work: str, state: str) -> None:
    """A server with tensor parallelism: rank 0 sleeps in its sockets, the others in a broadcast on the GPU."""
    found = run([[NOTHING, SPINS, SPINS, SPINS]] * 100, work=work)

    assert [shares(found, gpu) for gpu in range(4)] == [{state: pytest.approx(1.0)}] * 4
    assert not any(straggling(found).values())


def test_server_whose_ranks_all_spin_hangs_also_after_it_waited_for_requests() -> None:
    before = run([[NOTHING, SPINS, SPINS, SPINS]] * 100, work="service")
    found = run([[SPINS] * 4] * 100, work="service", ledger=before)

    assert [shares(found, gpu, before) for gpu in range(4)] == [{"wait_collective": pytest.approx(1.0)}] * 4


@pytest.mark.parametrize("utilization", [(0.99, 0.0), (None, None)])
def test_who_only_sits_on_the_gpu_hides_no_hang(utilization: tuple[float | None, float | None]) -> None:
    """A display server, a watcher or the MPS server has a process on each GPU of the job, and was given none."""
    watcher = Owner(workload="process:Xorg", kind="process", user="root")
    found = Ledger()
    for _ in range(50):
        readings = tuple(
            Reading(
                Target(f"GPU-{gpu}", gpu, ""),
                SPINS,
                (Allocation(JOB, 1.0, (100 + gpu,), utilization[0]), Allocation(watcher, 0.0, (9,), utilization[1])),
            )
            for gpu in range(4)
        )
        found = advance_ledger(found, LedgerInput(time=0.0, seconds=1.0, readings=readings, hosts={JOB: CALM}))

    assert all(shares(found, gpu)["wait_collective"] >= 0.9 for gpu in range(4))


@pytest.mark.parametrize(
    "unmeasured",
    [
        {"tensor_active": None, "memory_activity": 0.2},
        {"dram_active": None, "memory_activity": None},
        {"power_of_limit": None},
    ],
)
def test_gpu_of_which_something_is_not_measured_is_not_said_to_spin(unmeasured: dict[str, float | None]) -> None:
    """It may work. Of a MIG instance nobody measures the power, and small kernels are what it is for."""
    found = shares(run([[replace(SPINS, **unmeasured)] * 4] * 20))

    assert found == {"low_sm_activity": pytest.approx(1.0)}


@pytest.mark.parametrize(
    ("neighbour", "host", "states"),
    [
        (0.85, CALM, {"wait_cpu": 0.05, "wait_other": 0.35}),
        (0.3, CALM, {"wait_cpu": 0.4}),
        (0.85, replace(CALM, cpu_of_limit=1.0), {"wait_cpu": 0.4}),
    ],
)
def test_thread_that_waits_for_the_gpu_a_neighbour_uses_is_not_short_of_cpu(
    neighbour: float, host: HostSignals, states: dict[str, float]
) -> None:
    """Of a shared GPU one owner runs beyond its half. Who synchronises meanwhile spins on its CPU, as CUDA does."""
    other = Owner(workload="slurm:8", kind="slurm", slurm_job="8")
    allocated = (Allocation(JOB, 0.5, (100,), 0.1), Allocation(other, 0.5, (200,), neighbour))
    reading = Reading(Target("GPU-0", 0, ""), idle(0.1 + neighbour), allocated)
    full = ProcessSignals(1.0, 0.0, receiving=0.0, polling=False)
    hosts = {JOB: replace(host, processes={100: full}), other: CALM}
    booked = (
        advance_ledger(Ledger(), LedgerInput(time=0.0, seconds=1.0, readings=(reading,), hosts=hosts))
        .owners[JOB]
        .seconds
    )
    found = {state: seconds for state, seconds in zip(STATES, booked, strict=True) if seconds}

    assert {**states, "computing": 0.1} == pytest.approx(found)


def test_stages_that_work_and_spin_in_turn_have_no_small_kernels() -> None:
    """Two full cycles of eight on each of four GPUs, as in a pipeline with few micro-batches."""
    turns = [[HOPPER if (second // 2 + gpu) % 4 == 0 else SPINS for gpu in range(4)] for second in range(200)]
    found = shares(run(turns))

    assert "low_sm_activity" not in found
    assert found["computing"] == pytest.approx(0.25, abs=0.15)
    assert found["possible_spin"] >= 0.35


def test_small_kernels_are_found_a_minute_after_large_ones() -> None:
    small = replace(HOPPER, sm_active=0.4)
    before = run([[small] * 2] * 120, ledger=run([[HOPPER] * 2] * 60))

    assert shares(run([[small] * 2] * 60, ledger=before), since=before) == {"low_sm_activity": pytest.approx(1.0)}


def test_cycle_in_which_every_rank_follows_idled_none() -> None:
    """The leader has just ended: nobody is left that the others can have waited for."""
    sums = RankActivity(10.0, {"busy": 9.0})
    ranks = [_Rank(uuid, {"busy": 0.2}, sums, ran=True) for uuid in ("GPU-0", "GPU-1", "GPU-2")]

    assert _idled_fraction(ranks, [True, True, True]) == 0.0
    assert _idled_fraction(ranks, [False, True, True]) == pytest.approx(0.2)
    assert _idled_fraction(ranks, [False, False, True]) == 0.0


def test_work_level_is_the_highest_per_busy_second_and_none_of_idle_ranks() -> None:
    ranks = [_Rank(str(units), {}, RankActivity(10.0, {"busy": 5.0, "sm_active": units})) for units in (1.0, 2.0)]
    idling = _Rank("GPU-9", {}, RankActivity(10.0, {"busy": 0.0, "sm_active": 0.0}))

    assert _work_level([*ranks, idling], "sm_active") == pytest.approx(0.4)
    assert _work_level([*ranks, idling], "sm_active", floor=0.05) == pytest.approx(0.3)
    assert _work_level([idling], "sm_active") == 0.0


def test_part_that_a_node_kept_is_of_the_allocated_time() -> None:
    fractions = [(INDEX["wait_storage"], 0.2), (INDEX["computing"], 0.3)]

    assert kept_part(OwnerUsage(JOB, fractions, 0.0, 0.0)) == pytest.approx(0.4)
    assert kept_part(OwnerUsage(JOB, [], 0.0, 0.0)) == 0.0
