"""When the process ends so that a new container may have the driver back."""

from __future__ import annotations

import pytest

from exporter.daemon.serve import NodeProbe, RestartRule
from exporter.sampling.driver_connection import DriverState

OPEN = DriverState(error="")


def rule(exit_after: float = 120.0, gpus: int | None = 8, *, module: bool = False) -> RestartRule:
    return RestartRule(exit_after, NodeProbe(gpus=lambda: gpus, module_loaded=lambda: module))


def after(made: RestartRule, *states: tuple[float, DriverState]) -> str:
    """What it says last, told these states at these seconds."""
    return [made.reason(state, at) for at, state in states][-1]


def lasting(made: RestartRule, error: str, seconds: float) -> str:
    return after(made, (0, DriverState(error=error)), (seconds, DriverState(error=error)))


@pytest.mark.parametrize("error", ["LIBRARY_NOT_FOUND", "UNKNOWN", "NO_PERMISSION"])
def test_leaves_with_the_reason_when_a_new_container_may_help(error: str) -> None:
    said = lasting(rule(), error, 120)

    assert said.startswith(f"{error}: ")
    assert "a new container" in said
    assert lasting(rule(), error, 119) == ""


def test_leaves_when_the_devices_are_gone_from_the_container_alone() -> None:
    assert "device nodes are not in this container" in lasting(rule(module=True), "DRIVER_NOT_LOADED", 120)
    assert lasting(rule(module=False), "DRIVER_NOT_LOADED", 9999) == ""  # nothing to be given: the node has no driver


@pytest.mark.parametrize("gpus", [0, None])
def test_stays_where_the_node_has_no_gpu(gpus: int | None) -> None:
    assert lasting(rule(gpus=gpus), "LIBRARY_NOT_FOUND", 9999) == ""


@pytest.mark.parametrize("error", ["", "NOT_OPENED", "TIMEOUT", "GPU_IS_LOST", "LIB_RM_VERSION_MISMATCH"])
def test_stays_with_what_a_new_container_cannot_mend(error: str) -> None:
    assert lasting(rule(), error, 9999) == ""


def test_never_leaves_unless_told() -> None:
    assert lasting(rule(exit_after=0), "LIBRARY_NOT_FOUND", 9999) == ""


def test_time_counts_from_when_the_driver_was_last_there() -> None:
    lost, made = DriverState(error="UNKNOWN"), rule()

    assert after(made, (0, lost), (119, lost), (120, OPEN), (121, lost), (240, lost)) == ""
    assert made.reason(lost, 241) != ""


def test_change_of_the_code_is_still_the_same_lack() -> None:
    states = ((0, DriverState(error="LIBRARY_NOT_FOUND")), (60, DriverState(error="UNKNOWN")))

    assert after(rule(), *states, (120, DriverState(error="UNKNOWN"))).startswith("UNKNOWN: ")


def test_leaves_a_library_that_does_not_fit_the_kernel_module_wherever_it_runs() -> None:
    wrong = DriverState(error="LIB_RM_VERSION_MISMATCH", mismatch=True)

    assert after(rule(exit_after=0, gpus=None), (0, wrong), (299, wrong)) == ""
    assert "so that a new process loads the new library" in after(rule(exit_after=0), (0, wrong), (300, wrong))


def test_leaves_soon_where_the_driver_was_exchanged_under_this_process() -> None:
    """A new process loads the new library: nobody is to be blind for five minutes."""
    wrong = DriverState(versions=("580.95.05", "13.580.95.05", "13.0"), error="LIB_RM_VERSION_MISMATCH", mismatch=True)

    assert after(rule(exit_after=0), (0, wrong), (9, wrong)) == ""
    assert "so that a new process loads the new library" in after(rule(exit_after=0), (0, wrong), (10, wrong))
