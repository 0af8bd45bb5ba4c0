"""Programs of one user outside jobs, pods and containers: which of them are ranks of one work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.attribution.owner import Owner
from tests.unit.ledger.test_accusations import SPINS, run, shares, straggling
from tests.unit.ledger.test_signatures import CALM, HOPPER, idle

BARE = Owner(workload="process:python3", kind="process", user="ada")
SESSION = Owner(workload="unit:session-3.scope", kind="unit", user="ada")


@pytest.mark.parametrize("owner", [BARE, SESSION])
def test_programs_that_only_their_user_started_are_nobodys_peers(owner: Owner) -> None:
    found = run([[HOPPER, idle(0.05)]] * 100, owner=owner)
    one = run([[HOPPER, idle(0.05)]] * 100, owner=owner, pids=(100, 100))

    assert shares(found, 1) == {"wait_other": pytest.approx(0.95), "busy": pytest.approx(0.05)}
    assert shares(one, 1)["wait_peer"] == pytest.approx(0.95, abs=0.02)
    assert shares(run([[SPINS, SPINS]] * 100, owner=owner), 0) == {"small_kernels": pytest.approx(1.0)}
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
    assert [set(shares(hung, gpu, before)) for gpu in range(4)] == [{"wait_collective"}] * 2 + [{"busy"}] * 2


@pytest.mark.parametrize(
    ("workload", "one"),
    [
        ("unit:jupyter.service", True),
        ("unit:run-r12ab.scope", True),
        ("unit:session-3.scope", False),
        ("unit:tmux-spawn-0f.scope", False),
        ("unit:user@1000.service", False),
        ("unit:sshd@7-10.0.0.1.service", False),
        ("unit:cron.service", False),
    ],
)
def test_units_in_which_people_start_what_they_like_are_not_one_work(workload: str, *, one: bool) -> None:
    assert Owner(workload=workload, kind="unit").one_work == one
