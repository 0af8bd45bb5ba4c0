"""Who is accused, and who must not be: whole workloads of several GPUs, over minutes of cycles, with noise."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pytest

from exporter.attribution.owner import Owner, Target
from exporter.host.model import HostSignals, ProcessSignals
from exporter.ledger.account import Allocation, Ledger, LedgerInput, Reading
from exporter.ledger.ledger import advance_ledger
from exporter.ledger.states import LOST, STATES
from exporter.ledger.states.state import Signals
from tests.unit.ledger.test_signatures import AMPERE, CALM, HOPPER, idle

JOB = Owner(workload="slurm:7", kind="slurm", slurm_job="7")
SPINS = replace(
    HOPPER, sm_active=0.12, tensor_active=0.0, vector_active=0.0, dram_active=0.01, memory_activity=0.0,
    link_activity=0.0, power_of_limit=180 / 700,
)  # fmt: skip
SPINS_WITHOUT_GPM = replace(SPINS, sm_active=None, tensor_active=None, vector_active=None, dram_active=None)
NOTHING = idle(0.0)
RECEIVES = ProcessSignals(0.01, 0.0, receiving=1.0, polling=False)
SLEEPS = ProcessSignals(0.01, 0.0, receiving=0.0, polling=False)

Gpus = Sequence[Signals]


def run(  # noqa: PLR0913 - each is one fact of the workload
    cycles: Iterable[Gpus],
    *,
    owner: Owner = JOB,
    processes: Mapping[int, ProcessSignals] | None = None,
    work: str = "",
    host: HostSignals = CALM,
    spread: bool = False,
    pids: Sequence[int] = (),
    slow_ports: Iterable[str] = (),
    ledger: Ledger | None = None,
    interval: float = 1.0,
) -> Ledger:
    """GPU 0, 1, … of one owner, each with a process 100, 101, … of its own."""
    ledger = ledger or Ledger()
    hosts = {owner: replace(host, processes=processes or {})}
    for gpus in cycles:
        readings = tuple(
            Reading(
                Target(f"GPU-{index}", index, ""),
                signals,
                (Allocation(owner, 1.0, (pids[index] if pids else 100 + index,)),),
            )
            for index, signals in enumerate(gpus)
        )
        ledger = advance_ledger(
            ledger,
            LedgerInput(
                time=0.0,
                seconds=interval,
                interval=interval,
                readings=readings,
                hosts=hosts,
                work={owner: work},
                spread=frozenset({owner}) if spread else frozenset(),
                slow_ports=frozenset(slow_ports),
            ),
        )
    return ledger


def shares(ledger: Ledger, gpu: int = 0, since: Ledger | None = None) -> dict[str, float]:
    """Of one GPU, what is not zero."""
    before = since.targets[f"GPU-{gpu}"].seconds if since else (0.0,) * len(STATES)
    seconds = [now - then for now, then in zip(ledger.targets[f"GPU-{gpu}"].seconds, before, strict=True)]
    return {state: part / sum(seconds) for state, part in zip(STATES, seconds, strict=True) if part}


def straggling(ledger: Ledger, owner: Owner = JOB) -> dict[str, float]:
    return {uuid: past.straggling_seconds for uuid, past in ledger.owners[owner].past.items() if past.ran or past}


@pytest.mark.parametrize("spins", [SPINS, SPINS_WITHOUT_GPM])
def test_eight_ranks_hung_in_one_collective(spins: Signals) -> None:
    hung = run([[spins] * 8] * 200)

    assert all(shares(hung, gpu)["wait_collective"] >= 0.8 for gpu in range(8))
    assert "wait_collective" in LOST
    assert not any(straggling(hung).values())


@pytest.mark.parametrize(("computes", "spins"), [(HOPPER, SPINS), (AMPERE, SPINS_WITHOUT_GPM)])
def test_a_job_that_hangs_after_an_hour_is_seen_by_its_own_power(computes: Signals, spins: Signals) -> None:
    """It draws half of its limit while it hangs, as a GPU of another make may: a quarter of what it drew before."""
    spins = replace(spins, power_of_limit=0.45)
    before = run([[computes] * 4] * 50)
    hung = run([[spins] * 4] * 50, ledger=before)

    assert shares(run([[spins] * 4] * 50)).get("wait_collective", 0.0) == 0.0
    assert shares(hung, since=before)["wait_collective"] >= 0.8


def test_the_rank_that_waits_for_the_network_holds_up_the_one_that_spins() -> None:
    found = run([[SPINS, NOTHING]] * 100, processes={100: SLEEPS, 101: RECEIVES})

    assert shares(found, 0)["wait_collective"] >= 0.8
    assert shares(found, 1)["wait_network"] >= 0.8
    assert straggling(found)["GPU-1"] >= 80
    assert straggling(found)["GPU-0"] == 0


@pytest.mark.parametrize(
    ("signals", "host", "state"),
    [
        (idle(0.3), replace(CALM, io_pressure=0.9, blocked_threads=1.0), "wait_storage"),
        (idle(0.3), replace(CALM, hottest_thread=1.0), "wait_cpu"),
        (replace(HOPPER, throttled_thermal=0.9, sm_clock=0.4), CALM, "throttled_thermal"),
        (replace(HOPPER, sm_active=0.2, tensor_active=0.0, link_activity=0.5), CALM, "communication"),
    ],
)
def test_the_straggler_has_its_own_state_for_a_reason(signals: Signals, host: HostSignals, state: str) -> None:
    found = run([[SPINS, SPINS, signals, SPINS]] * 100, host=host)
    own = shares(found, 2)

    assert straggling(found) == {"GPU-0": 0.0, "GPU-1": 0.0, "GPU-2": pytest.approx(100, abs=6), "GPU-3": 0.0}
    assert own[state] >= 0.5
    assert "wait_peer" not in own


def test_a_healthy_job_has_no_straggler() -> None:
    checkpoint = replace(CALM, io_pressure=0.9, written_bytes_per_second=1e9)
    healthy = run([[HOPPER] * 4] * 200)
    paused = run([[NOTHING] * 4] * 20, host=checkpoint, ledger=healthy)

    assert not any(straggling(run([[HOPPER] * 4] * 200, ledger=paused)).values())


@pytest.mark.parametrize("pids", [(), (100, 100, 100, 100)])
def test_a_job_of_four_gpus_that_uses_one(pids: Sequence[int]) -> None:
    """Whether each GPU has a process of its own, or one process took them all; its full thread feeds the one."""
    processes = {100: ProcessSignals(1.0, 0.0, 0.0, polling=False)} if pids else {}
    found = run([[HOPPER, NOTHING, NOTHING, NOTHING]] * 100, processes=processes, pids=pids)

    assert shares(found, 0)["computing"] >= 0.8
    assert all(shares(found, gpu)["allocated_unused"] >= 0.8 for gpu in (1, 2, 3))
    assert all("wait_peer" not in shares(found, gpu) for gpu in (1, 2, 3))
    assert not any(straggling(found).values())


def test_a_stage_that_took_part_is_unused_only_after_long() -> None:
    before = run([[HOPPER, HOPPER]] * 30)
    soon = run([[HOPPER, NOTHING]] * 300, ledger=before)
    late = run([[HOPPER, NOTHING]] * 1500, ledger=soon)

    assert shares(soon, 1, before)["wait_peer"] >= 0.99
    assert shares(late, 1, soon)["allocated_unused"] >= 0.75


@pytest.mark.parametrize(("work", "state"), [("service", "wait_requests"), ("interactive", "wait_other")])
def test_who_waits_for_somebody_is_not_short_of_cpu_because_a_thread_polls(work: str, state: str) -> None:
    polls = ProcessSignals(1.0, 0.0, 0.0, polling=True)
    limited = replace(CALM, cpu_of_limit=1.0, cpu_pressure=0.9)

    assert shares(run([[NOTHING]] * 100, processes={100: polls}, work=work))[state] >= 0.8
    assert shares(run([[idle(0.42)]] * 100, processes={100: polls}, work=work)) == {
        state: pytest.approx(0.58),
        "computing": pytest.approx(0.42),
    }
    assert shares(run([[NOTHING]] * 100, processes={100: polls}, work=work, host=limited))[state] >= 0.8


def test_a_service_at_its_cpu_limit_between_requests_is_short_of_cpu() -> None:
    found = run([[idle(0.3)]] * 100, work="service", host=replace(CALM, cpu_of_limit=1.0))

    assert shares(found)["wait_cpu"] == pytest.approx(0.7)


def test_a_polling_thread_of_unknown_work_is_no_wait_for_cpu() -> None:
    polls, loads = (ProcessSignals(1.0, 0.0, 0.0, polling=polling) for polling in (True, False))

    assert shares(run([[NOTHING]] * 100, processes={100: polls})).get("wait_cpu", 0) <= 0.1
    assert shares(run([[NOTHING]] * 100, processes={100: loads})).get("wait_cpu", 0) == pytest.approx(1.0)
    assert shares(run([[idle(0.3)]] * 100, processes={100: polls}))["wait_cpu"] == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("blocked", "read", "written", "state"),
    [
        (0.0, 0.0, 0.0, "wait_other"),
        (0.0, 2e6, 0.0, "wait_storage"),
        (1.0, 0.0, 0.0, "wait_storage"),
        (0.0, 0.0, 9e7, "wait_checkpoint"),
        (0.0, None, None, "wait_other"),
    ],
)
def test_io_of_a_sidecar_explains_nothing(
    blocked: float, read: float | None, written: float | None, state: str
) -> None:
    """Some task of the pod is stalled nearly always; whether it is the GPU's program, its own IO says."""
    own = ProcessSignals(
        0.01, blocked, 0.0, polling=False, read_bytes_per_second=read, written_bytes_per_second=written
    )
    host = replace(CALM, io_pressure=0.9, io_full_pressure=0.0, read_bytes_per_second=5e7)
    found = run([[idle(0.2)]] * 100, processes={100: own}, host=host)

    assert shares(found)[state] == pytest.approx(0.8)


def test_full_pressure_is_taken_for_the_programs_own_where_its_io_cannot_be_read() -> None:
    host = replace(CALM, io_pressure=0.9, io_full_pressure=0.85)
    found = run([[idle(0.2)]] * 100, processes={100: ProcessSignals(0.01, 0.0)}, host=host)

    assert shares(found)["wait_storage"] == pytest.approx(0.8)


def test_throttling_takes_what_the_clocks_lost() -> None:
    """Flagged 95 % of the time, clocks 1.5 % down."""
    flagged = replace(HOPPER, throttled_thermal=0.95, sm_clock=1950e6, sm_clock_max=1980e6)
    found = shares(run([[flagged]] * 100))

    assert found["throttled_thermal"] == pytest.approx(0.95 * (1 - 1950 / 1980))


def test_clocks_are_compared_with_those_the_gpu_runs_unthrottled() -> None:
    """At its power limit it never reaches the highest clock there is."""
    free = replace(HOPPER, sm_clock=1700e6, sm_clock_max=1980e6)
    hot = replace(free, throttled_thermal=0.9, sm_clock=1530e6)
    before = run([[free]] * 50)

    assert shares(run([[hot]] * 50, ledger=before), since=before)["throttled_thermal"] == pytest.approx(0.09, abs=0.002)


@pytest.mark.parametrize("reason", ["throttled_thermal", "throttled_power_brake"])
@pytest.mark.parametrize(("every", "part"), [(1, 0.1), (10, 1.0), (1, 1.0), (3, 0.5)])
def test_what_is_lost_is_what_the_clock_lacks_times_how_long_it_was_held_down(
    reason: str, every: int, part: float
) -> None:
    """Half of the clock, for .1 s of each second or for 1 s of 10. A read falls into that time only now and then."""
    read = random.Random(3)  # noqa: S311 - the same in each run
    free = replace(HOPPER, sm_clock=1980e6, sm_clock_max=1980e6)
    allocated = [
        replace(free, sm_clock_throttled=990e6 if read.random() < part else None, **{reason: part})
        if second % every == 0
        else free
        for second in range(600)
    ]
    before = run([[free]] * 50)
    found = shares(run([[each] for each in allocated], ledger=before), since=before)

    assert found[reason] == pytest.approx(0.5 * part / every, rel=0.2)


@pytest.mark.parametrize(("every", "part"), [(1, 0.1), (10, 1.0), (1, 1.0), (3, 0.5)])
def test_power_limit_takes_what_the_clock_lacks_times_how_long_and_no_state(every: int, part: float) -> None:
    """1485 of 1980 MHz for a part of each second, or of each tenth."""
    read = random.Random(3)  # noqa: S311 - the same in each run
    free = replace(HOPPER, throttled_power_cap=0.0, sm_clock=1980e6, sm_clock_max=1980e6)
    capped = [
        replace(free, sm_clock_capped=1485e6 if read.random() < part else None, throttled_power_cap=part)
        if second % every == 0
        else free
        for second in range(600)
    ]
    found = run([[each] for each in [free] * 50 + capped])

    assert found.targets["GPU-0"].power_cap_seconds == pytest.approx(600 * 0.25 * part / every, rel=0.2)
    assert shares(found) == {"computing": pytest.approx(1.0)}


def test_power_limit_takes_of_the_time_that_heat_leaves_it() -> None:
    hot = replace(HOPPER, throttled_power_cap=1.0, throttled_thermal=0.75, sm_clock_throttled=990e6, sm_clock=990e6)
    found = run([[replace(hot, sm_clock_max=1980e6)]] * 100)

    assert shares(found)["throttled_thermal"] == pytest.approx(0.375)
    assert found.targets["GPU-0"].power_cap_seconds == pytest.approx(100 * 0.25 * 0.5)


def test_power_limit_that_never_lets_go_is_compared_with_the_highest_clock() -> None:
    capped = replace(HOPPER, throttled_power_cap=1.0, sm_clock_capped=1485e6, sm_clock=1485e6, sm_clock_max=1980e6)

    assert run([[capped]] * 100).targets["GPU-0"].power_cap_seconds == pytest.approx(25.0)


def test_power_limit_whose_time_is_not_counted_is_absent() -> None:
    assert run([[HOPPER]] * 10).targets["GPU-0"].power_cap_seconds is None


def test_work_on_several_nodes_can_spin_on_one_gpu_of_each() -> None:
    assert shares(run([[SPINS]] * 100, spread=True))["wait_collective"] >= 0.95
    assert shares(run([[SPINS]] * 100)) == {"low_sm_activity": pytest.approx(1.0)}


MIXTURES: Mapping[str, tuple[Signals, str]] = {
    "tiny kernels over several GPUs are no collective": (
        replace(SPINS, vector_active=0.05, dram_active=0.06, tensor_active=0.01),
        "low_sm_activity",
    ),
    "an all-reduce that moves data is communication": (
        replace(SPINS, link_activity=0.6, dram_active=0.2),
        "communication",
    ),
    "a collective of a part of each second is not told from small kernels": (
        replace(idle(0.5, SPINS), busy=0.6),
        "low_sm_activity",
    ),
    "a copy kernel that streams memory is memory bound": (replace(SPINS, dram_active=0.8), "memory_bound"),
    "sparse fp64 work at low power computes": (replace(SPINS, sm_active=0.6, vector_active=0.4), "tensor_cores_unused"),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_what_looks_like_a_collective_and_is_none(name: str) -> None:
    signals, state = MIXTURES[name]
    found = shares(run([[signals] * 4] * 100))

    assert found[state] >= 0.8 * signals.busy if signals.busy else False
    assert "wait_collective" not in found


def test_a_rank_that_others_wait_for_is_in_use_whatever_keeps_it() -> None:
    """Its deadlock lasts half an hour; "ask for fewer GPUs" would be the wrong advice."""
    before = run([[HOPPER] * 4] * 50)
    stuck = run([[SPINS, SPINS, NOTHING, SPINS]] * 1800, ledger=before)

    assert shares(stuck, 2, before) == {"wait_other": pytest.approx(1.0)}
    assert straggling(stuck)["GPU-2"] == pytest.approx(1800, rel=0.03)


def test_rank_behind_a_bad_link_is_the_one_that_all_spin_for() -> None:
    """All spin in the same collective: what tells the culprit is the port next to its GPU."""
    found = run([[SPINS] * 4] * 100, spread=True, slow_ports=["GPU-2"])

    assert {gpu for gpu, seconds in straggling(found).items() if seconds >= 80} == {"GPU-2"}
    assert not any(straggling(run([[SPINS] * 4] * 100, spread=True)).values())
    assert not any(straggling(run([[SPINS] * 2] * 100, spread=True, slow_ports=["GPU-0", "GPU-1"])).values())


def test_kernel_that_fills_the_sms_is_no_spinning_one_however_little_it_draws() -> None:
    assert "wait_collective" in shares(run([[SPINS] * 2] * 20))
    assert "wait_collective" not in shares(run([[replace(SPINS, sm_active=0.5)] * 2] * 20))


def test_rank_that_waits_behind_a_bad_link_waits_for_the_network() -> None:
    """Only of a job with other nodes: within one, nothing goes over the port."""
    quiet = [[HOPPER]] * 5 + [[NOTHING]] * 95

    assert shares(run(quiet, spread=True, slow_ports=["GPU-0"]))["wait_network"] >= 0.8
    assert "wait_network" not in shares(run(quiet, slow_ports=["GPU-0"]))
    assert "wait_network" not in shares(run(quiet, spread=True))
