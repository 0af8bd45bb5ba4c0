"""Real programs that keep a GPU waiting, told apart by the real /proc, cgroups and PSI of this machine.

The GPU itself is constructed: its utilization is what a driver would say of such a program.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from exporter.attribution.owner import Owner
from exporter.attribution.ownership import Ownership, Target
from exporter.host.cgroup import Hierarchy, hierarchy
from exporter.host.process import ProcessReader
from exporter.host.reader import HostReader
from exporter.ledger.account import Holding, Ledger, Pass, Reading
from exporter.ledger.evidence import Signals
from exporter.ledger.ledger import advance
from exporter.ledger.states import STATES

OWNER = Owner(workload="slurm:42", kind="slurm", slurm_job="42")
CGROUPFS = Path("/sys/fs/cgroup")
PROGRAM = Path(__file__).with_name("cause_program.py")
INTERVAL, PASSES = 0.5, 8


@contextlib.contextmanager
def running(*arguments: str, cgroup: Cgroup | None = None) -> Iterator[int]:
    """A program of `cause_program.py`, from its `ready` to its end."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if cgroup:
            cgroup.add(process.pid)
        yield process.pid
    finally:
        process.kill()
        process.communicate()


@dataclass(frozen=True)
class Cgroup:
    """A cgroup of our own in every controller there is, as a workload manager makes one."""

    path: str
    folders: Sequence[Path]

    def add(self, pid: int) -> None:
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def write(self, values: dict[str, str]) -> bool:
        """Set what of `values` this layout has; whether all could be set."""
        done: set[str] = set()
        for folder in self.folders:
            for name, value in values.items():
                if (folder / name).exists():
                    with contextlib.suppress(OSError):
                        (folder / name).write_text(value)
                        done.add(name)
        return done == set(values)


@pytest.fixture
def cgroup() -> Iterator[Cgroup]:
    name = f"gpu-exporter-test-{os.getpid()}"
    v2 = hierarchy(CGROUPFS) is Hierarchy.V2
    roots = [CGROUPFS] if v2 else [CGROUPFS / each for each in ("unified", "cpu", "cpuacct", "blkio")]
    folders: list[Path] = []
    try:
        for root in roots:
            with contextlib.suppress(OSError):
                if v2:
                    (root / "cgroup.subtree_control").write_text("+cpu +io")
            (root / name).mkdir()
            folders.append(root / name)
    except OSError as error:
        for folder in folders:
            folder.rmdir()
        pytest.skip(f"no cgroup can be made here: {error}")
    yield Cgroup(f"/{name}", folders)
    for folder in folders:
        deadline = time.monotonic() + 10
        while True:  # a killed process leaves its cgroup a moment after it was waited for
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            assert time.monotonic() < deadline, f"{folder} stays in use"
            time.sleep(0.05)


def settle(pids: Sequence[int], busy: Sequence[float], cgroup: Cgroup | None = None) -> dict[str, float]:
    """Seconds of the owner by state, after passes in which each process had a GPU that was busy for so much of it."""
    processes, host = ProcessReader(), HostReader(cgroupfs=CGROUPFS)
    ownership = Ownership(processes=dict.fromkeys(pids, OWNER), cgroups={OWNER: cgroup.path} if cgroup else {})
    readings = tuple(
        Reading(Target(f"GPU-{index}", index, ""), Signals(busy=share), (Holding(OWNER, 1.0, (pid,)),))
        for index, (pid, share) in enumerate(zip(pids, busy, strict=True))
    )
    ledger, before = Ledger(), None
    for _ in range(PASSES + 1):
        now = time.monotonic()
        found = {pid: process for pid in pids if (process := processes.read(pid)) is not None}
        _, signals = host.read(ownership, found, now)
        seconds = 0.0 if before is None else now - before
        step = Pass(time=time.time(), seconds=seconds, interval=5.0, readings=readings, hosts=signals)
        ledger, before = advance(ledger, step), now
        time.sleep(INTERVAL)  # the pace of the sampler: what is measured is the time between two passes
    return dict(zip(STATES, ledger.owners[OWNER].seconds, strict=True))


def share_of_lost(seconds: dict[str, float], state: str) -> float:
    lost = sum(seconds.values()) - seconds["busy"]
    assert lost > 0
    return seconds[state] / lost


def test_one_full_thread_is_a_wait_for_cpu() -> None:
    with running("burn") as pid:
        seconds = settle([pid], [0.3])

    assert share_of_lost(seconds, "wait_cpu") >= 0.8, seconds


def test_program_at_its_cpu_quota_waits_for_cpu(cgroup: Cgroup) -> None:
    quota = {"cpu.max": "20000 100000"} if len(cgroup.folders) == 1 else {"cpu.cfs_quota_us": "20000"}
    if not cgroup.write(quota):
        pytest.skip("no CPU quota can be set here")
    with running("burn", cgroup=cgroup) as pid:
        seconds = settle([pid], [0.3], cgroup)

    assert share_of_lost(seconds, "wait_cpu") >= 0.8, seconds


def test_reading_from_a_slowed_disk_is_a_wait_for_storage(cgroup: Cgroup, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(os.urandom(1 << 20) * 16)
    os.sync()
    number = tmp_path.stat().st_dev
    disk = f"{os.major(number)}:{os.minor(number)}"
    rate = 2 << 20
    slow = (
        {"io.max": f"{disk} rbps={rate}"}
        if len(cgroup.folders) == 1
        else {"blkio.throttle.read_bps_device": f"{disk} {rate}"}
    )
    if not cgroup.write(slow):
        pytest.skip(f"the disk {disk} cannot be slowed by a cgroup here")
    with running("read", str(data), cgroup=cgroup) as pid:
        seconds = settle([pid], [0.2], cgroup)

    assert share_of_lost(seconds, "wait_storage") >= 0.8, seconds


def test_process_in_d_state_waits_for_storage_also_without_psi() -> None:
    with running("blocked") as pid:
        deadline = time.monotonic() + 10
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "D":
            assert time.monotonic() < deadline, "it never sat in D state"
            time.sleep(0.02)
        seconds = settle([pid], [0.0])

    assert share_of_lost(seconds, "wait_storage") >= 0.8, seconds


def test_sleeping_program_waits_for_something_else() -> None:
    with running("sleep") as pid:
        seconds = settle([pid], [0.0])

    assert share_of_lost(seconds, "wait_other") >= 0.8, seconds


def test_rank_that_waits_for_its_sibling_waits_for_its_peer() -> None:
    """The working rank's launching thread is full, as in training; the waiting one must not be blamed for it."""
    with running("burn") as working, running("follow") as waiting:
        seconds = settle([working, waiting], [1.0, 0.0])

    assert share_of_lost(seconds, "wait_peer") >= 0.8, seconds
