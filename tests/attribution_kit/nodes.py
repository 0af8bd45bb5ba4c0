"""GPUs and processes as attribution gets them, in few words."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from exporter.attribution.owner import Target
from exporter.host.model import HostProcess

CONTAINER_ID = "3f05ee050f82c0145f1d88c94269c39dff0f07dbf8bba20aafd54b3a75dcaecc"


def gpu(number: int, minor: int | None = None) -> Target:
    return Target(
        uuid=f"GPU-00000000-0000-0000-0000-00000000000{number}",
        index=number,
        pci_bus_id=f"0000:{number:02x}:00.0",
        minor=number if minor is None else minor,
    )


def instance(number: int, gi: int, profile: str = "1g.10gb") -> Target:
    """MIG instance `gi` of GPU `number`."""
    return Target(
        uuid=f"MIG-00000000-0000-0000-000{gi}-00000000000{number}",
        index=number,
        pci_bus_id=f"0000:{number:02x}:00.0",
        minor=number,
        parent_uuid=f"GPU-00000000-0000-0000-0000-00000000000{number}",
        gpu_instance=gi,
        compute_instance=0,
        profile=profile,
        share=1 / 7,
    )


def host_process(pid: int, cgroup: str, user: str = "alice", command: str = "python3") -> HostProcess:
    return HostProcess(pid, command, user, 1000.0 + pid, 1.0, 1 << 20, cgroup)


def cgroup(path: str) -> str:
    return f"0::{path}\n"


def of(processes: Iterable[HostProcess]) -> Mapping[int, HostProcess]:
    return {process.pid: process for process in processes}


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for `condition`, and say so when it does not come: long, as only a failure waits all of it."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s"
        time.sleep(0.005)  # what is waited for cannot wake us: another program, or a thread that signals nobody


def becomes(expected: object, ask: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until `ask` answers what is expected, and show both when it does not."""
    deadline = time.monotonic() + seconds
    while (found := ask()) != expected and time.monotonic() < deadline:
        time.sleep(0.05)  # as above; asking costs a command
    assert found == expected, f"found {found}\nnot   {expected}"
