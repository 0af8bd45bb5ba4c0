"""Programs that keep a GPU waiting for a known reason, in cgroups of their own, as a workload manager starts them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from exporter.host.cgroup import Hierarchy, hierarchy

CGROUPFS = Path("/sys/fs/cgroup")
PROGRAM = Path(__file__).with_name("cause_program.py")


@dataclass(frozen=True)
class Cgroup:
    """One cgroup in every controller there is."""

    path: str
    folders: Sequence[Path]

    def add(self, pid: int) -> None:
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def write(self, values: Mapping[str, str]) -> bool:
        """Set what of `values` this layout has; whether all could be set."""
        done: set[str] = set()
        for folder in self.folders:
            for name, value in values.items():
                if (folder / name).exists():
                    with contextlib.suppress(OSError):
                        (folder / name).write_text(value)
                        done.add(name)
        return done == set(values)

    def limit_cpu(self, cores: float) -> None:
        quota = str(int(cores * 100_000))
        if not self.write({"cpu.max": f"{quota} 100000"} if self._is_v2 else {"cpu.cfs_quota_us": quota}):
            pytest.skip("no CPU quota can be set here")

    def slow_disk_of(self, path: Path, bytes_per_second: int, *, writes: bool = False) -> None:
        number = path.stat().st_dev
        disk = f"{os.major(number)}:{os.minor(number)}"
        v2, v1 = f"{disk} {'wbps' if writes else 'rbps'}={bytes_per_second}", f"{disk} {bytes_per_second}"
        file = f"blkio.throttle.{'write' if writes else 'read'}_bps_device"
        if not self.write({"io.max": v2} if self._is_v2 else {file: v1}):
            pytest.skip(f"the disk {disk} cannot be slowed by a cgroup here")

    @property
    def _is_v2(self) -> bool:
        return len(self.folders) == 1


@contextlib.contextmanager
def cgroup(name: str) -> Iterator[Cgroup]:
    """Made below the root, as a systemd service's; the test is skipped where none can be made."""
    v2 = hierarchy(CGROUPFS) is Hierarchy.V2
    name = f"gpu-exporter-test-{os.getpid()}-{name}.service"
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
        _remove(folders)
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        yield Cgroup(f"/{name}", folders)
    finally:
        _remove(folders)


@contextlib.contextmanager
def running(*arguments: str, within: Cgroup | None = None) -> Iterator[int]:
    """A program of `cause_program.py`, by its pid, from its `ready` to its end."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if within:
            for pid in (process.pid, *children(process.pid)):
                within.add(pid)
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def children(pid: int) -> tuple[int, ...]:
    return tuple(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def wait_until_blocked(pid: int) -> None:
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "D":
        assert time.monotonic() < deadline, "it never sat in D state"
        time.sleep(0.02)


def data_on_disk(folder: Path) -> Path:
    data = folder / "data"
    data.write_bytes(os.urandom(1 << 20) * 16)
    os.sync()
    return data


def _remove(folders: Sequence[Path]) -> None:
    """A killed process, and the child it left, are in their cgroup a moment longer than they can be waited for."""
    deadline = time.monotonic() + 10
    for folder in folders:
        while folder.exists():
            with contextlib.suppress(OSError):
                folder.rmdir()
                continue
            assert time.monotonic() < deadline, f"{folder} stays in use"
            time.sleep(0.05)
