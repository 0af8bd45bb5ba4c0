"""Ranks that sit in a receive: whether they wait for one beside them that is late, or for the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from exporter.attribution.owner import Owner, Target
from exporter.core.units import BytesPerSecond
from exporter.host.model import HostSignals, ProcessSignals
from exporter.ledger.account import Allocation, Ledger, LedgerInput, Reading
from exporter.ledger.ledger import advance_ledger
from exporter.ledger.states import INDEX
from tests.unit.ledger.test_accusations import JOB, NOTHING, RECEIVES, SLEEPS, run, shares, straggling
from tests.unit.ledger.test_signatures import CALM, HOPPER

WRITES = replace(
    SLEEPS, blocked=1.0, read_bytes_per_second=BytesPerSecond(0.0), written_bytes_per_second=BytesPerSecond(1e9)
)
"""A checkpoint, to storage."""


@pytest.mark.parametrize(
    ("late", "state"),
    [
        (WRITES, "wait_checkpoint"),
        (replace(SLEEPS, blocked=1.0), "wait_storage"),
        (replace(SLEEPS, hottest_thread=1.0), "wait_cpu"),
        (replace(SLEEPS, stopped=True), "wait_other"),
    ],
)
def test_ranks_in_a_receive_wait_for_the_one_beside_them_that_is_late(late: ProcessSignals, state: str) -> None:
    """A barrier over TCP while the first rank writes, reads, prepares data or is in a debugger: no port is to blame."""
    before = run([[HOPPER] * 4] * 50)
    found = run([[NOTHING] * 4] * 100, processes={100: late, **dict.fromkeys((101, 102, 103), RECEIVES)}, ledger=before)

    assert shares(found, 0, before)[state] >= 0.9
    assert [shares(found, gpu, before) for gpu in (1, 2, 3)] == [{"wait_peer": pytest.approx(1.0)}] * 3
    held_up = {uuid: seconds - straggling(before)[uuid] for uuid, seconds in straggling(found).items()}
    assert held_up == {"GPU-0": pytest.approx(100), "GPU-1": 0.0, "GPU-2": 0.0, "GPU-3": 0.0}


def test_ranks_that_meet_for_the_first_time_wait_for_the_one_that_prepares() -> None:
    """The others wait in a store for the identifier that the first rank has yet to give them."""
    found = run([[NOTHING] * 2] * 100, processes={100: replace(SLEEPS, hottest_thread=1.0), 101: RECEIVES})

    assert shares(found, 1) == {"wait_peer": pytest.approx(1.0)}


@pytest.mark.parametrize(
    ("late", "mine", "host", "slow_ports"),
    [
        (SLEEPS, RECEIVES, CALM, ()),  # nothing on this node keeps the other one
        (replace(RECEIVES, hottest_thread=1.0), RECEIVES, CALM, ()),  # a child of it receives as well
        (WRITES, replace(RECEIVES, hottest_thread=0.7), CALM, ()),  # it works: on what it receives
        (WRITES, RECEIVES, replace(CALM, network_bytes_per_second=BytesPerSecond(9e7)), ()),  # a download
        (WRITES, RECEIVES, CALM, ("GPU-1",)),
    ],
)
def test_rank_that_may_well_wait_for_the_network_does(
    late: ProcessSignals, mine: ProcessSignals, host: HostSignals, slow_ports: Sequence[str]
) -> None:
    before = run([[HOPPER] * 2] * 50)
    processes = {100: late, 101: mine}
    found = run(
        [[NOTHING] * 2] * 100, processes=processes, host=host, spread=True, slow_ports=slow_ports, ledger=before
    )

    assert shares(found, 1, before) == {"wait_network": pytest.approx(1.0)}


def test_who_shares_a_gpu_with_a_rank_waits_for_none_of_its_peers() -> None:
    """Another job has half of the second GPU; its ranks wait for the network."""
    other = Owner("slurm:8", "slurm", slurm_job="8")
    hosts = {
        JOB: replace(CALM, processes={100: WRITES, 101: RECEIVES}),
        other: replace(CALM, processes={200: RECEIVES, 201: RECEIVES}),
    }
    ledger = Ledger()
    for signals in [HOPPER] * 50 + [NOTHING] * 100:
        readings = (
            Reading(Target("GPU-0", 0, ""), signals, (Allocation(JOB, 1.0, (100,)),)),
            Reading(Target("GPU-1", 1, ""), signals, (Allocation(JOB, 0.5, (101,)), Allocation(other, 0.5, (200,)))),
            Reading(Target("GPU-2", 2, ""), signals, (Allocation(other, 1.0, (201,)),)),
        )
        ledger = advance_ledger(
            ledger, LedgerInput(time=0.0, seconds=1.0, interval=1.0, readings=readings, hosts=hosts)
        )
    waited = {owner: account.seconds[INDEX["wait_peer"]] for owner, account in ledger.owners.items()}

    assert waited == {JOB: pytest.approx(50), other: 0.0}
