"""Workloads that do two things at once, made to fool the ledger: each GPU has its own truth."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.host.model import ProcessSignals
from tests.unit.ledger.test_accusations import NOTHING, RECEIVES, SLEEPS, run, shares, straggling
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


def test_ranks_that_read_in_turns_all_wait_for_storage() -> None:
    """Each is seen in D state in one pass of three, never two at once: the pressure is everybody's."""
    stalled = replace(CALM, io_pressure=0.9, io_full_pressure=0.88)
    calm = replace(READS, blocked=0.0)
    found = run([[HOPPER] * 3] * 50)
    before = found
    for second in range(120):
        processes = {100 + rank: READS if second % 3 == rank else calm for rank in range(3)}
        found = run([[idle(0.2)] * 3], processes=processes, host=stalled, ledger=found)

    assert all(shares(found, gpu, before)["wait_storage"] >= 0.75 for gpu in range(3))


def test_gpu_that_is_never_used_holds_nobody_up() -> None:
    """Three GPUs: two compute in turns of a minute, the third never."""
    minutes = [[HOPPER, NOTHING, NOTHING]] * 60 + [[NOTHING, HOPPER, NOTHING]] * 60
    found = run(minutes * 3)

    assert shares(found, 2)["held_unused"] >= 0.9
    assert straggling(found)["GPU-2"] == pytest.approx(0.0, abs=10.0)
    assert all(shares(found, gpu)["wait_peer"] >= 0.3 for gpu in (0, 1))


@pytest.mark.parametrize(("hottest", "state"), [(0.0, "wait_other"), (0.03, "wait_network"), (None, "wait_network")])
def test_what_a_sidecar_downloads_does_not_keep_a_sleeping_program(hottest: float | None, state: str) -> None:
    """The containers of a pod share its network: the counter is everybody's, the CPU the program's own."""
    own = ProcessSignals(hottest, 0.0, receiving=0.0, polling=False)
    found = run([[idle(0.2)]] * 100, processes={100: own}, host=replace(CALM, network_bytes_per_second=9e7))

    assert shares(found)[state] == pytest.approx(0.8)


def test_suspended_job_waits_for_nothing_it_is_accused_of_and_is_unused_in_the_end() -> None:
    """`scontrol suspend` stops every process: no kernel, no CPU, nobody blocked."""
    before = run([[HOPPER] * 2] * 50)
    stopped = ProcessSignals(0.0, 0.0, receiving=0.0, polling=True)
    at_first = run([[NOTHING] * 2] * 500, processes={100: stopped, 101: stopped}, ledger=before)
    later = run([[NOTHING] * 2] * 500, processes={100: stopped, 101: stopped}, ledger=at_first)

    assert [shares(at_first, gpu, before) for gpu in (0, 1)] == [{"wait_other": pytest.approx(1.0)}] * 2
    assert all(shares(later, gpu, at_first)["held_unused"] >= 0.75 for gpu in (0, 1))
    assert not any(straggling(later).values())


def test_gpu_that_encodes_video_without_a_kernel_is_not_unused() -> None:
    found = run([[replace(NOTHING, engine_active=0.9), NOTHING]] * 100, processes={100: SLEEPS, 101: SLEEPS})

    assert shares(found, 0) == {"wait_other": pytest.approx(1.0)}
    assert shares(found, 1)["held_unused"] >= 0.9
