"""A real Slurm on this machine for as long as a test needs it: one node, eight device nodes for GPUs, loopback only.

Debian's packages, unpacked by .ci/make/fetch-slurm.sh. Needs root: device nodes, cgroups, jobs of another user.
GRES indices are deliberately not the devices' minor numbers.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.attribution_kit.nodes import until
from tests.attribution_kit.remains import removed, works_in, zombie

ROOT = Path(__file__).resolve().parents[2] / ".cache/slurm/unpacked"
KIT = Path(__file__).resolve().parents[2] / "deploy/slurm"
LIBRARIES = next(iter((ROOT / "usr/lib").glob("*-linux-gnu")), ROOT / "usr/lib")
INDEX_TO_MINOR = (4, 5, 6, 7, 0, 1, 2, 3)
TRACKING = ("cgroup", "linuxproc") if Path("/sys/fs/cgroup/freezer").is_dir() else ("linuxproc",)
"""How Slurm can track processes here: by cgroup v1 where it is mounted, by parentage everywhere."""


def _lacking() -> str:
    if os.geteuid() != 0:
        return "a real Slurm needs root: device nodes, and jobs of another user"
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    if not any(kind.startswith("cgroup") and Path(place, "cgroup.procs").exists() for _, place, kind, *_ in mounts):
        return "a real Slurm needs cgroups, and no cgroup file system is mounted here"
    if not (ROOT / "usr/sbin/slurmctld").exists():
        return "no Slurm 22.05 or newer is here: run .ci/make/fetch-slurm.sh"
    return ""


LACKING = _lacking()
"""Why no Slurm can be started here; empty where it can."""
_CONF = """\
ClusterName=e2e
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
AuthType=auth/munge
AuthInfo=socket={work}/run/munge.sock
PluginDir={plugins}
SlurmUser=root
SlurmdUser=root
StateSaveLocation={work}/state
SlurmdSpoolDir={work}/spool/%n
SlurmctldPidFile={work}/run/slurmctld.pid
SlurmdPidFile={work}/run/slurmd-%n.pid
SlurmctldLogFile={work}/logs/slurmctld.log
SlurmdLogFile={work}/logs/slurmd-%n.log
ReturnToService=2
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000
KillWait=1
FirstJobId={first}
ProctrackType=proctrack/{tracking}
TaskPlugin={task}
PrologFlags={flags}
Prolog={work}/etc/prolog.sh
Epilog={work}/etc/epilog.sh
JobAcctGatherType=jobacct_gather/none
GresTypes=gpu,shard
SlurmdParameters=config_overrides
{nodes}PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


_NODE = """\
NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=32 RealMemory=1000 Gres=gpu:fake:8,shard:32
"""
_GRES = """\
NodeName=other Name=gpu Type=fake File=/dev/nvidia[0-7]
"""
_NODE_GRES = """\
NodeName={node} Name=gpu Type=fake File={work}/gpu[4-7],{work}/gpu[0-3]
NodeName={node} Name=shard Count=32
"""


_HOOK = """\
#!/bin/sh
exec {kit}/{hook} {work}/gpumap
"""


# A GPU program that computes nothing: tells its pid, and which device nodes it may open (no driver: ENXIO).
_HOLD = """\
#!/bin/bash
open=""
for minor in 0 1 2 3 4 5 6 7; do
  said=$( {{ : < {work}/gpu$minor; }} 2>&1 )
  case "$said" in *"not permitted"*) ;; *) open="$open $minor" ;; esac
done
echo "$$ $open / ${{SLURM_STEP_GPUS:-$SLURM_JOB_GPUS}}" > {work}/pids/.$$
mv {work}/pids/.$$ {work}/pids/$SLURM_JOB_ID.$$
exec sleep 600
"""


_COMMAND = """\
#!/bin/sh
SLURMD_NODENAME={node} SLURM_CONF={work}/etc/slurm.conf LD_LIBRARY_PATH={libraries} exec {root}/usr/bin/${{0##*/}} "$@"
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class SlurmCluster:
    """Start with `with`. `tracking` is one of TRACKING."""

    def __init__(self, tracking: str) -> None:
        self.tracking = tracking
        self.node = f"e2e{os.getpid()}{tracking}"
        """Of its own, for its cgroups carry the name and test workers run side by side."""
        self.nodes: Sequence[str] = (self.node,)
        self.work = Path(tempfile.mkdtemp(prefix="slurm-e2e-"))
        self._children: list[subprocess.Popen[bytes]] = []
        self.environment = {
            **os.environ,
            "SLURM_CONF": str(self.work / "etc/slurm.conf"),
            "LD_LIBRARY_PATH": f"{LIBRARIES}:{LIBRARIES}/slurm-wlm",
            "PATH": f"{ROOT}/usr/bin:{ROOT}/usr/sbin:{os.environ['PATH']}",
        }

    def __enter__(self) -> SlurmCluster:  # noqa: PYI034 - Self is newer than our oldest Python
        _remove_stale_cgroups()
        try:
            self._configure()
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._cancel_all()
        finally:
            for child in self._children:
                child.kill()
                child.wait(20)
            for name in (*(f"slurmd-{node}" for node in self.nodes), "slurmctld", "slurmdbd", "mariadbd", "munged"):
                # Nothing is kept, and slurmctld 25.11 does not end by SIGTERM after a node was lost.
                self.stop_daemon(name, signal.SIGKILL)
            for pid in self._left():
                _kill(pid, signal.SIGKILL)
            self._remove_cgroups()
            shutil.rmtree(self.work, ignore_errors=True)

    def _cancel_all(self) -> None:
        if (self.work / "run/slurmctld.pid").exists():
            for user in ("root", "games"):
                self.run("scancel", "-u", user, check=False)
            until(lambda: not self.run("squeue", "-h", check=False).strip(), 30)

    def run(self, *command: str, check: bool = True) -> str:
        done = subprocess.run(
            command, env=self.environment, cwd=self.work, capture_output=True, text=True, timeout=60, check=False
        )
        assert not check or done.returncode == 0, f"{command}: {done.stderr} {self.logs()}"
        return done.stdout

    def spawn(self, *command: str) -> None:
        """Run a command of Slurm's that stays (srun) until the cluster ends."""
        quiet = subprocess.DEVNULL
        child = subprocess.Popen(command, env=self.environment, cwd=self.work, stdout=quiet, stderr=quiet)
        self._children.append(child)

    @property
    def hold(self) -> str:
        return f"{self.work}/hold.sh"

    @property
    def scontrol(self) -> Path:
        """This cluster's scontrol, to be called from anywhere."""
        return self.wrapped("scontrol")

    def wrapped(self, command: str) -> Path:
        """A command of this cluster, to be called from anywhere."""
        return self.work / command

    def job(self, name: str) -> str:
        """Raw id of the one running job of that name."""
        return self.jobs(name)[0]

    def jobs(self, name: str) -> Sequence[str]:
        return self.run("squeue", "-h", "-t", "R", "-n", name, "-o", "%A").split()

    def allocated_to(self) -> Mapping[int, tuple[str, frozenset[int]]]:
        """By pid of each program that runs: its job, and the minors of its devices."""
        found: dict[int, tuple[str, frozenset[int]]] = {}
        for file in (self.work / "pids").glob("[0-9]*"):
            opened, _, indices = file.read_text().partition("/")
            pid, *minors = map(int, opened.split())
            if len(minors) == len(INDEX_TO_MINOR):  # nothing kept it from opening what is not its own
                minors = [INDEX_TO_MINOR[int(index)] for index in indices.split(",")]
            if Path(f"/proc/{pid}").exists():
                found[pid] = (file.name.partition(".")[0], frozenset(minors))
        return found

    def stop_daemon(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        file = self.work / f"run/{name}.pid"
        if not file.exists():
            return
        pid = int(file.read_text())
        _kill(pid, number)
        until(lambda: not Path(f"/proc/{pid}").exists() or zombie(pid), 120)
        file.unlink(missing_ok=True)

    def logs(self) -> str:
        return "\n".join(log.read_text()[-2000:] for log in sorted((self.work / "logs").glob("*.log")))

    def _configure(self) -> None:
        self.work.chmod(0o755)
        for name in ("etc", "run", "state", "spool", "logs", "gpumap", "pids"):
            (self.work / name).mkdir()
        (self.work / "pids").chmod(0o777)
        for minor in range(8):
            os.mknod(self.work / f"gpu{minor}", 0o020666, os.makedev(195, minor))
            (self.work / f"gpu{minor}").chmod(0o666)
        cgroup = self.tracking == "cgroup"
        values = {
            "work": self.work,
            "kit": KIT,
            "host": socket.gethostname(),
            "node": self.node,
            "controller": free_port(),
            # Of its own: each cluster sees the cgroups that another one, or one that was killed, has on this machine.
            "first": int.from_bytes(os.urandom(2), "big") * 1000 + 1,
            "nodes": "".join(
                _NODE.format(node=node, host=socket.gethostname(), port=free_port()) for node in self.nodes
            ),
            "plugins": f"{LIBRARIES}/slurm-wlm",
            "tracking": self.tracking,
            "task": "task/cgroup" if cgroup else "task/none",
            "flags": "Alloc,Contain" if cgroup else "Alloc",
        }
        files = {
            "etc/slurm.conf": _CONF,
            "etc/gres.conf": _GRES + "".join(_NODE_GRES.replace("{node}", node) for node in self.nodes),
            "etc/cgroup.conf": "CgroupPlugin=autodetect\nConstrainDevices=yes\n",
            "etc/prolog.sh": _HOOK.replace("{hook}", "prolog"),
            "etc/epilog.sh": _HOOK.replace("{hook}", "epilog"),
            "hold.sh": _HOLD,
        }
        for name, text in files.items():
            (self.work / name).write_text(text.format(**values))
            (self.work / name).chmod(0o755)
        for command in ("scontrol", "sacct", "sacctmgr"):
            text = _COMMAND.format(libraries=self.environment["LD_LIBRARY_PATH"], root=ROOT, **values)
            self.wrapped(command).write_text(text)
            self.wrapped(command).chmod(0o755)
        (self.work / "run/munge.key").write_bytes(os.urandom(1024))
        (self.work / "run/munge.key").chmod(0o600)

    def _start(self) -> None:
        run = self.work / "run"
        self.run(
            "munged", "--force", f"--key-file={run}/munge.key", f"--socket={run}/munge.sock",
            f"--pid-file={run}/munged.pid", f"--log-file={self.work}/logs/munged.log", f"--seed-file={run}/seed",
        )  # fmt: skip
        self._start_accounting()
        self.run("slurmctld", "-c")
        until(lambda: "is UP" in self.run("scontrol", "ping", check=False))
        for node in self.nodes:
            self.start_daemon(node)
        self._await_nodes()

    def _await_nodes(self) -> None:
        ready = f"idle {len(self.nodes)}"
        until(lambda: self.run("sinfo", "-h", "-o", "%t %D", check=False).strip() == ready)

    def start_daemon(self, node: str) -> None:
        self.run("slurmd", "-c", "-N", node, "-d", f"{ROOT}/usr/sbin/slurmstepd")

    def _start_accounting(self) -> None:
        """Nothing: this cluster has no slurmdbd."""

    def _left(self) -> Sequence[int]:
        """What still runs in this cluster's directory: without slurmctld, steps wait for it for long."""
        return [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if works_in(folder, self.work)]

    def _remove_cgroups(self) -> None:
        for cgroup in Path("/sys/fs/cgroup").glob(f"*/slurm_{self.node}"):
            _remove_cgroup(cgroup)


def _kill(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _remove_stale_cgroups() -> None:
    """Remove the cgroups of clusters whose tests were killed: an exporter takes them for those of jobs."""
    for cgroup in Path("/sys/fs/cgroup").glob("*/slurm_e2e*"):
        owner = re.match(r"slurm_e2e(\d+)", cgroup.name)
        ours = all(0 not in _processes(folder) for folder, _, _ in os.walk(cgroup))  # 0: of another PID namespace
        if owner and ours and not Path(f"/proc/{owner[1]}").exists():
            _remove_cgroup(cgroup)


def _remove_cgroup(cgroup: Path) -> None:
    """Remove a cgroup and those below, with the processes in them."""
    for folder, _, _ in os.walk(cgroup, topdown=False):
        for pid in _processes(folder):
            _kill(pid, signal.SIGKILL)
        until(lambda path=folder: removed(path))


def _processes(folder: str) -> list[int]:
    try:
        return [int(pid) for pid in Path(folder, "cgroup.procs").read_text().split()]
    except OSError:  # a slurmstepd that ends has removed it
        return []
