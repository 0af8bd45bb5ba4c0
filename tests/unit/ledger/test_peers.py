"""Programs of one user outside jobs, pods and containers: which of them are ranks of one work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.attribution.owner import Owner, Target
from exporter.host.model import ProcessSignals
from exporter.ledger.account import Allocation, Ledger, LedgerInput, Reading
from exporter.ledger.history import was_blocked
from exporter.ledger.ledger import advance_ledger
from exporter.ledger.states.state import UsageHistory
from tests.unit.ledger.test_accusations import JOB, SPINS, run, shares, straggling
from tests.unit.ledger.test_signatures import CALM, HOPPER, idle

BARE = Owner(workload="process:python3", kind="process", user="ada")
SESSION = Owner(workload="unit:session-3.scope", kind="unit", user="ada")


@pytest.mark.parametrize("owner", [BARE, SESSION])
def test_programs_that_only_their_user_started_are_nobodys_peers(owner: Owner) -> None:
    found = run([[HOPPER, idle(0.05)]] * 100, owner=owner)
    one = run([[HOPPER, idle(0.05)]] * 400, owner=owner, pids=(100, 100))

    assert shares(found, 1) == {"wait_other": pytest.approx(0.95), "computing": pytest.approx(0.05)}
    assert shares(one, 1)["wait_peer"] == pytest.approx(0.95, abs=0.05)
    assert shares(run([[SPINS, SPINS]] * 100, owner=owner), 0) == {"low_sm_activity": pytest.approx(1.0)}
    assert not any(straggling(found, owner).values())


@pytest.mark.parametrize("owner", [BARE, SESSION])
def test_ranks_of_one_launcher_are_peers_and_other_programs_of_the_user_are_not(owner: Owner) -> None:
    """Two runs of torchrun with two ranks each: one has a rank that computes while the other waits, one is healthy."""
    launched = replace(CALM, launchers={100: 50, 101: 50, 102: 60, 103: 60})
    before = run([[HOPPER] * 4] * 20, owner=owner, host=launched)
    found = run([[HOPPER, idle(0.05), HOPPER, HOPPER]] * 100, owner=owner, host=launched, ledger=before)

    assert shares(found, 1, before)["wait_peer"] == pytest.approx(0.95)
    assert straggling(found, owner)["GPU-0"] == pytest.approx(95, abs=5)
    assert straggling(found, owner)["GPU-2"] == straggling(found, owner)["GPU-3"] == 0.0

    hung = run([[SPINS, SPINS, HOPPER, HOPPER]] * 100, owner=owner, host=launched, ledger=before)
    assert all(shares(hung, gpu, before)["wait_collective"] >= 0.95 for gpu in (0, 1))
    assert [set(shares(hung, gpu, before)) for gpu in (2, 3)] == [{"computing"}] * 2


def test_rank_that_spun_before_its_peers_had_come_is_not_taken_to_compute_so() -> None:
    """Ranks open their GPUs one after the other, and spin in their first collective until the last has come."""
    before = run([[SPINS]] * 5)
    together = run([[SPINS, SPINS]] * 100, ledger=before)
    working = run([[HOPPER, HOPPER]] * 5, ledger=before)
    later = run([[SPINS, SPINS]] * 100, ledger=working)

    assert shares(together, 0, before)["wait_collective"] >= 0.95
    assert shares(later, 0, working)["wait_collective"] >= 0.95


def test_rank_holds_up_the_others_where_at_least_half_of_them_wait() -> None:
    one, two = (run([[HOPPER] * (4 - spinning) + [SPINS] * spinning] * 100) for spinning in (1, 2))

    assert not any(straggling(one).values())
    assert [uuid for uuid, seconds in straggling(two).items() if seconds] == ["GPU-0", "GPU-1"]


def test_rank_that_is_back_for_half_of_a_cycle_is_part_of_the_work_again() -> None:
    before = run([[HOPPER] * 3] * 5 + [[idle(0.0), HOPPER, HOPPER]] * 700)
    found = run([[idle(0.5), HOPPER, idle(0.0)]], ledger=before)
    later = run([[idle(0.5), HOPPER, idle(0.0)]] * 20, ledger=found)

    assert shares(found, 0, before) == {"computing": pytest.approx(0.5), "allocated_unused": pytest.approx(0.5)}
    held_up = {uuid: seconds - straggling(before)[uuid] for uuid, seconds in straggling(later).items()}
    assert held_up["GPU-1"] >= 10.0
    assert held_up == pytest.approx({"GPU-0": 0.0, "GPU-1": held_up["GPU-1"], "GPU-2": 0.0}, abs=1.0)


def test_job_that_was_never_seen_before_waits_for_storage_as_any_other() -> None:
    found = run([[idle(0.3), HOPPER]], host=replace(CALM, io_pressure=0.9))

    assert shares(found, 0)["wait_storage"] == pytest.approx(0.7)


@pytest.mark.parametrize(("hottest", "state"), [(0.4, "wait_cpu"), (0.05, "wait_other")])
def test_rank_that_wants_cpu_waits_for_it_and_one_that_hardly_does_waits_for_its_peers(
    hottest: float, state: str
) -> None:
    wants = ProcessSignals(hottest, 0.0, receiving=0.0, polling=False)
    pressed = replace(CALM, cpu_pressure=0.9)
    found = run([[idle(0.5), idle(0.5)]], processes={100: wants, 101: wants}, host=pressed)

    assert shares(found, 0)[state] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("hottest", "other", "state"), [(0.05, 1.0, "wait_other"), (1.0, 1.0, "wait_cpu"), (0.05, 0.05, "wait_cpu")]
)
def test_rank_that_sleeps_while_another_spends_the_cpu_limit_does_not_wait_for_cpu(
    hottest: float, other: float, state: str
) -> None:
    """Where no rank spends it, what feeds all of them does: loaders that no rank started itself."""
    ranks = {
        pid: ProcessSignals(share, 0.0, receiving=0.0, polling=False) for pid, share in ((100, hottest), (101, other))
    }
    found = run([[idle(0.5), idle(0.5)]], processes=ranks, host=replace(CALM, cpu_of_limit=1.0))

    assert shares(found, 0)[state] == pytest.approx(0.5)


def test_half_of_a_gpu_computes_as_much_as_it_is_used_of_its_half() -> None:
    """Of two GPUs that an owner has half of, neither waits for the other."""
    parts = tuple(
        Reading(Target(f"GPU-{index}", index, ""), idle(0.4), (Allocation(JOB, 0.5, (100 + index,)),))
        for index in range(2)
    )
    ledger = Ledger()
    for _ in range(20):
        ledger = advance_ledger(ledger, LedgerInput(time=0.0, seconds=1.0, readings=parts, hosts={JOB: CALM}))

    assert "wait_peer" not in shares(ledger, 0)


@pytest.mark.parametrize(("cycles", "lately"), [(0, True), (9, True), (10, False)])
def test_d_state_counts_for_ten_cycles(cycles: int, *, lately: bool) -> None:
    assert was_blocked(UsageHistory(unblocked_cycles=cycles)) is lately


def test_half_of_the_ranks_behind_a_bad_link_hold_up_nobody() -> None:
    """Who waits for whom cannot be told any more."""
    few, half = (run([[SPINS] * 4] * 100, spread=True, slow_ports=ports) for ports in (["GPU-0"], ["GPU-0", "GPU-1"]))

    assert straggling(few)["GPU-0"] >= 80
    assert not any(straggling(half).values())


DAEMONS = (
    *("condor", "pbs", "pbs_jobs", "pbs_mom", "torque-mom", "lsfd", "sgeexecd.p6444", "sge_execd", "gridengine-exec"),
    *("supervisor", "supervisord", "gitlab-runner", "actions.runner.org-repo.gpu1"),
)
"""Of HTCondor, PBS, LSF and Grid Engine; of programs and of jobs that test."""


@pytest.mark.parametrize(
    ("workload", "one"),
    [
        ("unit:jupyter.service", True),
        ("unit:run-r12ab.scope", True),
        ("unit:session-3.scope", False),
        ("unit:ada/session-3.scope", False),
        ("unit:ada/jupyter.service", True),
        ("unit:tmux-spawn-0f.scope", False),
        ("unit:user@1000.service", False),
        ("unit:sshd@7-10.0.0.1.service", False),
        ("unit:cron.service", False),
        *[(f"unit:{daemon}.service", False) for daemon in DAEMONS],
        ("unit:ada/condor.service", False),
        ("unit:pbsync.service", True),
        ("unit:vllm@1.service", True),
    ],
)
def test_units_in_which_people_start_what_they_like_are_not_one_work(workload: str, *, one: bool) -> None:
    assert Owner(workload=workload, kind="unit").one_work == one
