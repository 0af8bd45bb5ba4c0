"""Sites of docs/slurm-sites on a real Slurm.

Configless, private /tmp, sessions by pam_slurm_adopt, X11, a federation, MPS, and job ids that are used again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from exporter.attribution.owner import Owner, Ownership
from exporter.attribution.slurm.scontrol import RETURN_SECONDS
from tests.attribution_kit.nodes import becomes, until
from tests.attribution_kit.slurm_accounting import AccountedCluster
from tests.attribution_kit.slurm_cluster import LACKING, LIBRARIES, ROOT, TRACKING, SlurmCluster
from tests.attribution_kit.slurm_observer import Observer, observing, of_jobs, owner

pytestmark = [
    pytest.mark.deep,
    pytest.mark.xdist_group("slurm"),
    pytest.mark.skipif(bool(LACKING), reason=LACKING),
]

FEDERATED_IDS = 1 << 26
"""Job ids of a federation have the number of the cluster above these bits."""
BATCH = ("sbatch", "--parsable", "-o", "/dev/null")


def _weights(ownership: Ownership) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for (_, each), fraction in sorted(ownership.weights.items()):
        if each.slurm_job and fraction:
            found.setdefault(each.slurm_job, []).append(round(fraction, 6))
    return found


def _info(observer: Observer) -> dict[Owner, str]:
    return {each: info.job_name for each, info in observer.observe().info.items() if each.slurm_job}


class ConfiglessCluster(SlurmCluster):
    """slurmd has its files from slurmctld; the exporter reads gres.conf where slurmd keeps it."""

    def _configure(self) -> None:
        super()._configure()
        with (self.work / "etc/slurm.conf").open("a") as conf:
            conf.write("SlurmctldParameters=enable_configless\n")

    def start_daemon(self, node: str) -> None:
        port = (self.work / "etc/slurm.conf").read_text().partition("SlurmctldPort=")[2].split()[0]
        # slurmd links /run/slurm/conf, which other programs of this machine may use: it gets a /run of its own.
        daemon = f"exec slurmd -c -N {node} -d {ROOT}/usr/sbin/slurmstepd --conf-server 127.0.0.1:{port}"
        script = self.work / "configless"
        munge = f"ln -s {self.work}/run/munge.sock /run/munge/munge.socket.2"
        # Before it has its files, it looks for plugins where Debian's package has them.
        system = Path("/usr/lib") / LIBRARIES.name
        plugins = f"mount -t overlay overlay -o lowerdir={system}:{LIBRARIES} {system}"
        own_run = f"mount -t tmpfs none /run && mkdir -p /run/slurm /run/munge && {munge}"
        script.write_text(f"#!/bin/sh\nunset SLURM_CONF\n{plugins} && {own_run} && {daemon}\n")
        script.chmod(0o755)
        self.run("unshare", "-m", str(script))

    @property
    def kept(self) -> Path:
        return self.work / f"spool/{self.node}/conf-cache/gres.conf"

    def by_a_user(self, *command: str) -> str:
        """Run a command of the page as a user on the node, which has no /etc/slurm."""
        pid = (self.work / f"run/slurmd-{self.node}.pid").read_text().strip()
        user = ("setpriv", "--reuid=games", "--clear-groups", "env", "-u", "SLURM_CONF")
        return self.run("nsenter", "-m", "-t", pid, *user, *command)


def test_configless_slurmd_keeps_the_gres_conf_that_the_exporter_reads() -> None:
    cluster = ConfiglessCluster(TRACKING[0])
    with cluster:
        job = cluster.run(*BATCH, "--gres=gpu:2", "--wrap", f"exec {cluster.hold}").strip()
        until(cluster.allocated_to)
        own = cluster.work / "etc/gres.conf"
        own.unlink()
        own.symlink_to(cluster.kept)
        with observing(cluster) as observer:
            until(lambda: _weights(observer.observe()) == {job: [1.0, 1.0]})
            assert of_jobs(observer.observe()) == dict.fromkeys(cluster.allocated_to(), job)
        assert cluster.by_a_user("head", "-1", "/run/slurm/conf/gres.conf").startswith("NodeName=")
        assert "is UP" in cluster.by_a_user("scontrol", "ping")


class PrivateTmpCluster(SlurmCluster):
    """Each job has its own /tmp, so the files of the cluster are elsewhere."""

    def __init__(self, tracking: str) -> None:
        before, tempfile.tempdir = tempfile.tempdir, "/var/tmp"  # noqa: S108 - no file of ours
        try:
            super().__init__(tracking)
        finally:
            tempfile.tempdir = before

    def _configure(self) -> None:
        super()._configure()
        (self.work / "private").mkdir()
        (self.work / "etc/job_container.conf").write_text(f"AutoBasePath=true\nBasePath={self.work}/private\n")
        conf = self.work / "etc/slurm.conf"
        flags = conf.read_text().replace("PrologFlags=Alloc\n", "PrologFlags=Alloc,Contain\n")
        conf.write_text(f"{flags}JobContainerType=job_container/tmpfs\n")


def _in_chroot() -> bool:
    """Return whether a process that led to this one has another root."""
    pid = os.getpid()
    with contextlib.suppress(OSError):
        while pid > 1:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            if not Path(f"/proc/{pid}/root").samefile("/"):
                return True
    return False


@pytest.mark.skipif(_in_chroot(), reason="Slurm enters a namespace, and leaves a chroot")
def test_job_with_a_private_tmp_has_its_gpus_and_its_programs() -> None:
    mark = Path("/tmp/of-a-job-with-a-private-tmp")  # noqa: S108 - it must not be there
    with PrivateTmpCluster(TRACKING[0]) as cluster:
        job = cluster.run(*BATCH, "--gres=gpu:2", "--wrap", f"touch {mark}; exec {cluster.hold}").strip()
        until(cluster.allocated_to)
        with observing(cluster) as observer:
            until(lambda: _weights(observer.observe()) == {job: [1.0, 1.0]})
            assert of_jobs(observer.observe()) == dict.fromkeys(cluster.allocated_to(), job)
        assert not mark.exists()


_SESSION = """\
import ctypes, os, sys, time

pam, handle = ctypes.CDLL("libpam.so.0", ctypes.RTLD_GLOBAL), ctypes.c_void_p()
silent = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, *3 * [ctypes.c_void_p])(lambda *_: 0)
conversation = (ctypes.c_void_p * 2)(ctypes.cast(silent, ctypes.c_void_p))
begin = pam.pam_start_confdir(b"sshd", b"games", conversation, sys.argv[1].encode(), ctypes.byref(handle))
admitted = begin == 0 and pam.pam_acct_mgmt(handle, 0) == 0
print(os.getpid() if admitted else 0, flush=True)
time.sleep(600)
"""
"""What sshd does for a session of a user: PAM's check of the account, from then on the session's programs."""


class SessionCluster(SlurmCluster):
    """Its nodes admit a session to the job of its user, and forward X11."""

    def _configure(self) -> None:
        super()._configure()
        conf = self.work / "etc/slurm.conf"
        conf.write_text(conf.read_text().replace("PrologFlags=Alloc,Contain", "PrologFlags=Alloc,Contain,X11"))
        (self.work / "pam.d").mkdir()
        (module,) = ROOT.glob("**/security/pam_slurm_adopt.so")
        (self.work / "pam.d/sshd").write_text(f"account required {module} nodename={self.node}\n")

    @contextlib.contextmanager
    def session(self) -> Generator[int]:
        """Yield the pid of a session of the user games; 0 if it is not admitted."""
        command = (sys.executable, "-c", _SESSION, f"{self.work}/pam.d")
        with subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout
                yield int(process.stdout.readline())
            finally:
                process.kill()


@pytest.fixture(scope="module")
def sessions() -> Iterator[SessionCluster]:
    if TRACKING[0] != "cgroup":
        pytest.skip("sessions and X11 need an extern step, which needs cgroups of version 1 here")
    cluster = SessionCluster("cgroup")
    with cluster:
        yield cluster


def test_session_that_pam_adopts_belongs_to_the_job(sessions: SessionCluster) -> None:
    with sessions.session() as refused:
        assert not refused
    job = sessions.run(*BATCH, "--uid=games", "--gres=gpu:1", "--wrap", f"exec {sessions.hold}").strip()
    until(sessions.allocated_to)
    ((_, minors),) = sessions.allocated_to().values()
    with sessions.session() as pid, observing(sessions) as observer:
        observer.also[pid] = min(minors)
        until(lambda: of_jobs(observer.observe()) == dict.fromkeys((pid, *sessions.allocated_to()), job))

        assert f"job_{job}/step_extern" in Path(f"/proc/{pid}/cgroup").read_text()
        assert _weights(observer.observe()) == {job: [1.0]}
    sessions.run("scancel", job)
    until(lambda: not sessions.run("squeue", "-h").strip())


@pytest.mark.skipif(not Path("/usr/bin/xauth").exists(), reason="Slurm calls /usr/bin/xauth: make setup-xauth")
def test_job_with_forwarded_x11_has_its_gpus(sessions: SessionCluster) -> None:
    display, shown = "localhost:10", sessions.work / "pids/.display"
    sessions.environment |= {"DISPLAY": display, "XAUTHORITY": str(sessions.work / "cookies")}
    sessions.run("xauth", "add", display, ".", "0123456789abcdef0123456789abcdef")
    sessions.spawn(
        "srun", "-J", "x11", "--x11", "--gres=gpu:2", "sh", "-c", f"echo $DISPLAY > {shown}; {sessions.hold}"
    )
    until(lambda: sessions.jobs("x11") and sessions.allocated_to())
    job = sessions.job("x11")
    with observing(sessions) as observer:
        until(lambda: _weights(observer.observe()) == {job: [1.0, 1.0]})
        assert of_jobs(observer.observe()) == dict.fromkeys(sessions.allocated_to(), job)
    assert shown.read_text().startswith("localhost:")
    assert shown.read_text().strip() != display


class MemberCluster(SlurmCluster):
    """A second cluster with the slurmdbd of the first one."""

    def __init__(self, first: AccountedCluster) -> None:
        super().__init__(first.tracking)
        self._first = first
        self.node = f"{self.node}m"
        self.nodes = (self.node,)

    def _configure(self) -> None:
        super()._configure()
        lines = (self._first.work / "etc/slurm.conf").read_text().splitlines()
        shared = [line for line in lines if line.startswith(("AuthInfo=", "AccountingStorage"))]
        conf = self.work / "etc/slurm.conf"
        own = [line for line in conf.read_text().splitlines() if not line.startswith("AuthInfo=")]
        conf.write_text("\n".join([*own, *shared, ""]).replace("ClusterName=e2e\n", "ClusterName=member\n"))

    def _start_accounting(self) -> None:
        self.run("sacctmgr", "-i", "add", "cluster", "member")


def test_job_of_a_federation_is_known_by_the_cluster_that_runs_it() -> None:
    first = AccountedCluster(TRACKING[0])
    with first, MemberCluster(first) as member:
        first.run("sacctmgr", "-i", "add", "federation", "both", "clusters=e2e,member")
        until(lambda: "member" in first.run("scontrol", "show", "federation", check=False))
        job = first.run(
            *BATCH, "--clusters=member", "-J", "train", "--gres=gpu:2", "--wrap", f"exec {member.hold}"
        ).partition(";")[0]
        until(member.allocated_to)
        with observing(member) as observer:
            until(lambda: _weights(observer.observe()) == {job: [1.0, 1.0]})
            until(lambda: list(_info(observer).values()) == ["train"])
            assert of_jobs(observer.observe()) == dict.fromkeys(member.allocated_to(), job)
        assert int(job) > FEDERATED_IDS


class MpsCluster(SlurmCluster):
    """GPUs are shared by MPS: 100 parts of each."""

    def _configure(self) -> None:
        super()._configure()
        for name in ("slurm.conf", "gres.conf"):
            file = self.work / "etc" / name
            text = file.read_text().replace("shard:32", "mps:800").replace("gpu,shard", "gpu,mps")
            file.write_text(text.replace("Name=shard Count=32", "Name=mps Count=800"))


def test_jobs_on_mps_have_their_percentage_of_the_gpu() -> None:
    with MpsCluster(TRACKING[0]) as cluster:
        quarter, most = (
            cluster.run(*BATCH, f"--gres=mps:{parts}", "--wrap", f"exec {cluster.hold}").strip() for parts in (25, 75)
        )
        until(lambda: len(cluster.allocated_to()) == 2)
        with observing(cluster) as observer:
            becomes({quarter: [0.25], most: [0.75]}, lambda: _weights(observer.observe()))


@pytest.fixture
def cluster() -> Iterator[SlurmCluster]:
    with SlurmCluster(TRACKING[0]) as started:
        yield started


def test_id_that_slurm_uses_again_belongs_to_the_new_job(cluster: SlurmCluster) -> None:
    """The controller lost its state, so it counts from 1 again."""
    first = cluster.run(*BATCH, "-J", "first", "--gres=gpu:1", "--wrap", f"exec {cluster.hold}").strip()
    with observing(cluster) as observer:
        until(lambda: _info(observer) == {owner(first): "first"})
        cluster.run("scancel", first)
        until(lambda: not cluster.run("squeue", "-h") and not list((cluster.work / "gpumap").glob("job_*")))
        until(lambda: _info(observer) == {})
        ended = time.monotonic()
        cluster.stop_daemon("slurmctld", signal.SIGTERM)
        shutil.rmtree(cluster.work / "state")
        (cluster.work / "state").mkdir()
        cluster.run("slurmctld", "-c")
        cluster.stop_daemon(f"slurmd-{cluster.node}")  # it knows the credentials of ended jobs for two minutes
        cluster.start_daemon(cluster.node)
        until(lambda: cluster.run("sinfo", "-h", "-o", "%t", check=False).strip() == "idle")
        until(lambda: time.monotonic() - ended > RETURN_SECONDS)  # ids come back after days, not seconds
        again = cluster.run(
            *BATCH, "-J", "second", "--uid=games", "--gres=gpu:1", "--wrap", f"exec {cluster.hold}"
        ).strip()

        assert again == first
        becomes({owner(again, "games"): "second"}, lambda: _info(observer))
