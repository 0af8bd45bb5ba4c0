"""Evidence of the same time as the wait: whose socket, which part in D state, and CPU use that is no want of CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.host.model import ProcessSignals
from tests.unit.ledger.test_accusations import NOTHING, RECEIVES, run, shares
from tests.unit.ledger.test_signatures import CALM, HOPPER, idle

POLLS = ProcessSignals(1.0, 0.0, 0.0, polling=True)
CROWDED = replace(CALM, cpu_pressure=0.8)
"""A host whose programs want more CPUs than it has: each stands ready for most of the time."""


def test_receive_from_a_peer_is_a_wait_for_the_peer_and_not_for_the_network() -> None:
    before = run([[HOPPER]] * 5)
    found = run([[idle(0.4)]] * 100, processes={100: replace(RECEIVES, from_peer=True)}, ledger=before)
    server = run([[idle(0.4)]] * 100, processes={100: RECEIVES}, ledger=before)

    assert shares(found, since=before) == {"computing": pytest.approx(0.4), "wait_peer": pytest.approx(0.6)}
    assert shares(server, since=before) == {"computing": pytest.approx(0.4), "wait_network": pytest.approx(0.6)}


@pytest.mark.parametrize("traffic", [0.0, 0.01, 0.05, 0.3])
def test_server_that_polls_on_a_crowded_host_is_not_short_of_cpu(traffic: float) -> None:
    found = run([[idle(traffic)]] * 100, processes={100: POLLS}, work="service", host=CROWDED)

    assert shares(found).get("wait_cpu", 0.0) == 0.0
    assert shares(found)["wait_requests"] == pytest.approx(1.0 - traffic)


@pytest.mark.parametrize(
    ("wait", "blocked", "storage"),
    [(0.5, 0.5, 0.5), (0.5, 0.25, 0.25), (0.5, 0.75, 0.5), (1.0, 0.75, 0.75), (0.8, 0.25, 0.0), (0.8, 1.0, 0.8)],
)
def test_wait_for_storage_lasts_as_long_as_the_process_was_in_d_state(
    wait: float, blocked: float, storage: float
) -> None:
    """Less than half of the wait explains none of it."""
    process = ProcessSignals(0.3, blocked, 0.0, polling=False)
    found = run([[idle(1.0 - wait)]] * 100, processes={100: process})

    assert shares(found).get("wait_storage", 0.0) == pytest.approx(storage)


@pytest.mark.parametrize(("computes", "state"), [(True, "wait_other"), (False, "allocated_unused")])
def test_cpu_work_before_the_first_kernel_is_not_unused_though_it_takes_no_memory(computes: bool, state: str) -> None:  # noqa: FBT001
    """It makes no system calls, as a thread that polls does: what it computes cannot be seen."""
    found = run([[NOTHING]] * 100, processes={100: replace(POLLS, computes=computes)})

    assert shares(found)[state] >= 0.85


def test_cpu_work_without_a_kernel_for_ten_minutes_is_unused() -> None:
    before = run([[NOTHING]] * 600, processes={100: replace(POLLS, computes=True)})
    found = run([[NOTHING]] * 100, processes={100: replace(POLLS, computes=True)}, ledger=before)

    assert shares(found, since=before) == {"allocated_unused": pytest.approx(1.0)}


@pytest.mark.parametrize(
    ("process", "state"),
    [
        (ProcessSignals(0.8, 0.0, 0.0, polling=False, main_thread=0.4, tree_cpu=1.1), "wait_cpu"),
        (ProcessSignals(0.8, 0.0, 0.0, polling=False, main_thread=0.4, tree_cpu=0.7), "wait_other"),
        (ProcessSignals(0.8, 0.0, 1.0, polling=False, main_thread=0.4, tree_cpu=1.1), "wait_network"),
        (ProcessSignals(0.8, 0.0, 0.0, polling=False, main_thread=0.4, cpu=1.5), "wait_other"),
    ],
)
def test_process_that_works_by_those_it_starts_waits_for_cpu(process: ProcessSignals, state: str) -> None:
    """A compilation: no thread of it is full. Many threads that each wait most of the time show nothing."""
    found = run([[idle(0.1)]] * 100, processes={100: process})

    assert shares(found)[state] == pytest.approx(0.9)


def test_turns_of_one_thread_in_d_state_and_on_a_cpu_explain_the_wait_together() -> None:
    process = ProcessSignals(0.55, 0.4, 0.0, polling=False, main_thread=0.55)
    found = run([[idle(0.1)]] * 100, processes={100: process})

    assert [shares(found)[state] for state in ("wait_storage", "wait_cpu")] == pytest.approx([0.4, 0.5])
