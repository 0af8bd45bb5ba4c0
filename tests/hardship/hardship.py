"""The exporter where a machine gives it little: as nobody, without others' processes, with 20 descriptors, ...

Run by `make hardship` (root). Each hardship is one run of the real exporter over the fake driver, with a process on a
GPU, and a list of what must hold; one that this machine cannot make is told with the reason. Mounts are made in
namespaces of their own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import requests

from tests.bench.attacks import open_to
from tests.exporter_process import FAST, ROOT, Metrics, parse
from tests.fake_nvml.build import build
from tests.fake_nvml.scenario import GIB, node
from tests.stack import free_port, poll

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
MIB = 2**20


class CannotError(Exception):
    """This machine cannot make the hardship; the reason in one line."""


@dataclass(slots=True)
class Run:
    """One running exporter."""

    port: int
    process: subprocess.Popen[bytes]
    folder: Path
    job: subprocess.Popen[bytes]
    """The process on GPU 0, of root."""

    def metrics(self) -> Metrics:
        return parse(requests.get(f"http://127.0.0.1:{self.port}/metrics", timeout=10).text)

    def becomes(self, name: str, value: float) -> bool:
        """Whether a series has this value before long."""
        with suppress(AssertionError):
            return poll(name, lambda: True if self.metrics().one(name) == value else None, 90)
        return False


@dataclass(frozen=True, slots=True)
class Hardship:
    name: str
    check: Callable[[Run], Iterator[tuple[str, bool]]]
    """What must hold, and whether it does."""
    prefix: Callable[[Path], Sequence[str]] = lambda _: ()
    """The command that the exporter is started by, in this folder; raises CannotError."""
    options: Sequence[str] = ()


def common(run: Run) -> Iterator[tuple[str, bool]]:
    """What holds in every hardship: cycles go on, GPUs are read, no thread is down."""
    first = run.metrics().one("gpu_exporter_sampling_cycles_total") or 0.0
    poll(
        "ten more cycles",
        lambda: True if (run.metrics().one("gpu_exporter_sampling_cycles_total") or 0) > first + 10 else None,
    )
    found = run.metrics()
    yield "cycles go on", True
    yield "GPUs are read", found.all("gpu_up") == [1.0, 1.0]
    yield "its process is on GPU 0", bool(found.all("gpu_process_memory_bytes", pid=str(run.job.pid)))
    yield "every thread runs", set(found.all("gpu_exporter_thread_up")) == {1.0}
    yield "/-/ready", requests.get(f"http://127.0.0.1:{run.port}/-/ready", timeout=10).ok
    yield "it lives", run.process.poll() is None


def _nobody(run: Run) -> Iterator[tuple[str, bool]]:
    yield from common(run)
    found = run.metrics()
    yield "it is nobody", "\nUid:\t65534\t" in Path(f"/proc/{run.process.pid}/status").read_text()
    yield "the process has an owner", found.one("gpu_exporter_unattributed_processes") == 0.0
    yield "faults are said not to be kept", run.becomes("gpu_exporter_fault_state_saved", 0.0)


def _hidden(run: Run) -> Iterator[tuple[str, bool]]:
    yield from common(run)
    found = run.metrics()
    yield "the process is said to have no owner", found.one("gpu_exporter_unattributed_processes") == 1.0
    yield "cgroups are said not to tell", found.one("gpu_exporter_attribution_success", source="cgroup") == 0.0


def _descriptors(run: Run) -> Iterator[tuple[str, bool]]:
    with ExitStack() as stack:
        for _ in range(100):
            with suppress(OSError):
                stack.enter_context(open_to(run.port))
        yield from common(run)
    limit = Path(f"/proc/{run.process.pid}/limits").read_text()
    yield "the limit is 20", "Max open files            20 " in limit


def _little_memory(run: Run) -> Iterator[tuple[str, bool]]:
    with ExitStack() as stack:
        for _ in range(300):
            with suppress(OSError):
                stack.enter_context(open_to(run.port)).sendall(b"GET / HTTP/1.1\r\nX: ")
        yield from common(run)
    group = _memory_group(run.process.pid)
    peak = next(path for name in ("memory.peak", "memory.max_usage_in_bytes") if (path := group / name).exists())
    yield f"at most {int(peak.read_text()) / MIB:.0f} MiB of 64, file cache included", int(peak.read_text()) <= 64 * MIB
    killed = [path.read_text() for name in ("memory.events", "memory.oom_control") if (path := group / name).exists()]
    yield "nothing was killed", all("oom_kill 0" in text for text in killed)


def _full(run: Run) -> Iterator[tuple[str, bool]]:
    yield from common(run)
    yield "faults are said not to be kept", run.becomes("gpu_exporter_fault_state_saved", 0.0)
    Path(f"/proc/{run.process.pid}/root{run.folder}/disk/filled").unlink()
    yield "they are kept once there is room", run.becomes("gpu_exporter_fault_state_saved", 1.0)


def _shell(script: str) -> Sequence[str]:
    """A script in mounts of its own, which ends by starting what follows."""
    if subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
        raise CannotError("no mount namespace of its own (unshare -m)")
    return ("unshare", "-m", "sh", "-ec", f'{script}; exec "$@"', "sh")


def _disk(folder: Path) -> Sequence[str]:
    disk = folder / "disk"
    fill = f"head -c 2M /dev/zero > {disk}/filled 2>/dev/null || true"
    return _shell(f"mkdir {disk}; mount -t tmpfs -o size=1m tmpfs {disk}; {fill}")


def _unseen(_: Path) -> Sequence[str]:
    return (*_shell("mount -t proc -o hidepid=2 proc /proc"), *NOBODY)


def _limited(folder: Path) -> Sequence[str]:
    """A memory cgroup of 64 MiB, of version 2 or 1."""
    for root, limit in (
        (Path("/sys/fs/cgroup"), "memory.max"),
        (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
    ):
        group = root / f"gpu-exporter-{folder.name}"
        with suppress(OSError):
            group.mkdir()
            if (group / limit).exists():
                (group / limit).write_text(str(64 * MIB))
                return ("sh", "-ec", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh")
            group.rmdir()
    raise CannotError("no memory cgroup can be made")


def _memory_group(pid: int) -> Path:
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            return Path("/sys/fs/cgroup/memory" + path)
        if not controllers and "gpu-exporter-" in path:
            return Path("/sys/fs/cgroup" + path)
    raise AssertionError("the exporter is in no memory cgroup")


HARDSHIPS = (
    Hardship("as nobody", _nobody, lambda _: NOBODY, ("--state.dir", "/nowhere")),
    Hardship("as nobody, with hidepid=2", _hidden, _unseen, ("--state.dir", "")),
    Hardship(
        "20 descriptors, 100 connections", _descriptors, lambda _: ("prlimit", "--nofile=20"), ("--state.dir", "")
    ),
    Hardship("64 MiB cgroup, 300 connections", _little_memory, _limited, ("--state.dir", "")),
    Hardship("full disk", _full, _disk, ("--state.dir", "{folder}/disk")),
)


def interpreter(prefix: Sequence[str]) -> Sequence[str]:
    """A Python of this version that runs under the prefix; nobody may not read the home folder that this one is in."""
    for each in (sys.executable, shutil.which(f"python3.{sys.version_info.minor}", path="/usr/bin") or ""):
        if each and subprocess.run([*prefix, each, "-c", ""], check=False, capture_output=True).returncode == 0:
            return (each,)
    raise CannotError(f"no Python 3.{sys.version_info.minor} that this user may run")


@contextmanager
def running(hardship: Hardship, folder: Path) -> Iterator[Run]:
    job = subprocess.Popen(["sleep", "3600"])
    (folder / "scenario").write_text(_scenario({"gpu0.process.0": f"{job.pid} C {4 * GIB} 10 5 0 0"}))
    folder.chmod(0o755)
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(build()),
        "FAKE_NVML_SCENARIO": str(folder / "scenario"),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *(path for path in sys.path if path.endswith("site-packages"))]),
    }
    port = free_port()
    try:
        prefix = hardship.prefix(folder)
        options = [each.format(folder=folder) for each in hardship.options]
        command = [*prefix, *interpreter(prefix if "unshare" not in prefix else NOBODY), "-m", "exporter"]
        process = subprocess.Popen(
            [*command, "--web.listen-address", f"127.0.0.1:{port}", *FAST, *options],
            env=environment,
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=(folder / "log").open("wb"),
        )
        run = Run(port, process, folder, job)
        try:
            poll("the first cycles", lambda: _begun(run), 60)
            yield run
        finally:
            process.terminate()
            process.wait(30)
            _remove_groups(folder)
    finally:
        job.terminate()
        job.wait()


def _scenario(values: Mapping[str, str]) -> str:
    return "".join(f"{key} = {value}\n" for key, value in {**node(2), **values}.items())


def _begun(run: Run) -> bool | None:
    assert run.process.poll() is None, (run.folder / "log").read_text()
    with suppress(requests.RequestException):
        return True if run.metrics().all("gpu_process_memory_bytes") else None
    return None


def _remove_groups(folder: Path) -> None:
    for root in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/memory")):
        with suppress(OSError):
            (root / f"gpu-exporter-{folder.name}").rmdir()


def main() -> int:
    failed = 0
    for hardship in HARDSHIPS:
        with tempfile.TemporaryDirectory(prefix="hardship-") as folder:
            try:
                with running(hardship, Path(folder)) as run:
                    found = list(hardship.check(run))
            except CannotError as error:
                sys.stdout.write(f"{hardship.name:34} not made here: {error}\n")
                continue
        wrong = [what for what, holds in found if not holds]
        failed += bool(wrong)
        said = f"FAILED: {'; '.join(wrong)}" if wrong else f"ok: {'; '.join(what for what, _ in found)}"
        sys.stdout.write(f"{hardship.name:34} {said}\n")
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
