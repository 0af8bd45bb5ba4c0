"""A Kubernetes cluster of one node on this machine: the real parts, each a process, all ended by their ids."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.kubernetes import settings
from tests.e2e.kubernetes.waiting import NotYetError, wait_for

ROOT = Path(__file__).resolve().parents[3]
TOOLS = ROOT / ".cache/kubernetes"
BINARIES = TOOLS / "bin"
DEBIAN = TOOLS / "debian"
# Where the plain manifests and the chart's defaults keep the known faults of a node.
STATE = Path("/var/lib/gpu-exporter")
SYSCTLS = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward")


@dataclass
class Cluster:
    """Started by `running()`; `home` holds every file of it."""

    home: Path
    ports: settings.Ports
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        path = f"{BINARIES}:{DEBIAN}/usr/bin:{DEBIAN}/usr/sbin:{os.environ['PATH']}"
        libraries = f"{DEBIAN}/usr/lib/x86_64-linux-gnu:{DEBIAN}/lib/x86_64-linux-gnu"
        kept = {name: os.environ[name] for name in ("HOME", "TMPDIR", "LANG") if name in os.environ}
        return {**kept, "PATH": path, "KUBECONFIG": str(self.home / "kubeconfig"), "LD_LIBRARY_PATH": libraries}

    def start(self, name: str, *command: str, program: str = "") -> None:
        with (self.home / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [program or str(BINARIES / name), *command],
                stdout=log,
                stderr=log,
                env=self.environment,
                start_new_session=True,
            )

    def stop(self, name: str) -> None:
        process = self.processes.pop(name)
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def run(self, *command: str, given: str | None = None) -> str:
        """Standard output. Raises CalledProcessError with what the command said."""
        done = subprocess.run(
            command, capture_output=True, text=True, input=given, env=self.environment, timeout=300, check=False
        )
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
        return done.stdout

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        return self.run("kubectl", *arguments, given=given)

    def get(self, *arguments: str) -> Any:
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def apply(self, *objects: dict[str, Any]) -> None:
        self.kubectl("apply", "--server-side", "-f", "-", given="\n---\n".join(json.dumps(each) for each in objects))

    def helm(self, *arguments: str) -> str:
        try:
            return self.run("helm", *arguments)
        except subprocess.CalledProcessError as error:
            print(error.stderr)  # noqa: T201 - pytest shows it where the failure was not expected
            raise

    def import_image(self, archive: Path) -> None:
        self.run("ctr", "-a", str(self.home / "containerd.sock"), "-n", "k8s.io", "images", "import", str(archive))

    def describe(self) -> str:
        """What to read when something failed: the pods, the events, and the last lines of each part."""
        shown = []
        for arguments in (("get", "pods", "-A", "-o", "wide"), ("get", "events", "-A", "--sort-by=.lastTimestamp")):
            with contextlib.suppress(subprocess.CalledProcessError):
                shown.append(self.kubectl(*arguments))
        logs = (f"== {path.name}\n{_tail(path)}" for path in sorted(self.home.glob("*.log")))
        return "\n".join([*shown, *logs])


def _tail(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-8:])


@contextlib.contextmanager
def running(home: Path, runtime: Path, images: Sequence[Path]) -> Iterator[Cluster]:
    """A cluster whose node is ready and has the images. Puts back what the kubelet changes on the machine."""
    if list(Path("/sys/fs/cgroup").glob("*/kubepods")) or Path("/var/log/containers").exists():
        raise RuntimeError("this machine already has pods: a second kubelet would disturb them")
    with contextlib.ExitStack() as undo:
        undo.callback(_restore_sysctls, {name: Path("/proc/sys", name).read_text() for name in SYSCTLS})
        cluster = Cluster(home, settings.Ports(*_free_ports(9)))
        undo.callback(_remove_traces, home)
        if not STATE.exists():
            undo.callback(shutil.rmtree, STATE, ignore_errors=True)
        undo.callback(_stop_all, cluster)
        _files(cluster, runtime)
        _bridge()
        undo.callback(subprocess.run, ["ip", "link", "delete", settings.BRIDGE], check=False)
        _start(cluster, images)
        yield cluster
        for namespace in cluster.get("namespaces")["items"]:
            cluster.kubectl("delete", "pods", "--all", "-n", namespace["metadata"]["name"], "--grace-period=1")


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as open_:
        sockets = [open_.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _bridge() -> None:
    subprocess.run(["ip", "link", "delete", settings.BRIDGE], check=False, capture_output=True)
    for arguments in (
        ["link", "add", settings.BRIDGE, "type", "bridge"],
        ["addr", "add", f"{settings.GATEWAY}/24", "dev", settings.BRIDGE],
        ["link", "set", settings.BRIDGE, "up"],
    ):
        subprocess.run(["ip", *arguments], check=True)


def _files(cluster: Cluster, runtime: Path) -> None:
    home = cluster.home
    _certificates(cluster)
    (home / "tokens.csv").write_text(f'{settings.TOKEN},admin,admin,"system:masters"\n')
    (home / "kubeconfig").write_text(settings.kubeconfig(cluster.ports, home / "ca.crt"))
    (home / "kubelet.json").write_text(settings.kubelet(home, cluster.ports))
    (home / "containerd.toml").write_text(settings.containerd(home, DEBIAN, runtime))
    (home / "cni").mkdir()
    (home / "cni/e2e.conflist").write_text(settings.network(home))
    Path("/var/lib/kubelet/device-plugins").mkdir(parents=True, exist_ok=True)


def _certificates(cluster: Cluster) -> None:
    home = cluster.home
    names = f"subjectAltName=IP:127.0.0.1,IP:{settings.GATEWAY},IP:10.96.0.1,DNS:kubernetes.default.svc"
    key = ["-newkey", "rsa:2048", "-nodes"]
    cluster.run(
        "openssl", "req", "-x509", *key, "-keyout", f"{home}/ca.key", "-out", f"{home}/ca.crt", "-subj", "/CN=e2e"
    )
    request = ["-keyout", f"{home}/api.key", "-out", f"{home}/api.csr", "-subj", "/CN=kube-apiserver"]
    cluster.run("openssl", "req", *key, *request)
    (home / "api.ext").write_text(names)
    signed = ["-in", f"{home}/api.csr", "-CA", f"{home}/ca.crt", "-CAkey", f"{home}/ca.key", "-CAcreateserial"]
    cluster.run("openssl", "x509", "-req", *signed, "-extfile", f"{home}/api.ext", "-out", f"{home}/api.crt")
    cluster.run("openssl", "genrsa", "-out", f"{home}/accounts.key", "2048")


def _start(cluster: Cluster, images: Sequence[Path]) -> None:
    home, ports = cluster.home, cluster.ports
    etcd = f"http://127.0.0.1:{ports.etcd}"
    peer = f"http://127.0.0.1:{ports.etcd_peer}"
    cluster.start(
        "etcd",
        f"--data-dir={home}/etcd",
        f"--listen-client-urls={etcd}",
        f"--advertise-client-urls={etcd}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        program=str(DEBIAN / "usr/bin/etcd"),
    )
    cluster.start("containerd", f"--config={home}/containerd.toml", program=str(DEBIAN / "usr/bin/containerd"))
    cluster.start(
        "kube-apiserver",
        f"--etcd-servers={etcd}",
        f"--bind-address={settings.GATEWAY}",
        f"--advertise-address={settings.GATEWAY}",
        f"--secure-port={ports.api}",
        "--service-cluster-ip-range=10.96.0.0/24",
        "--authorization-mode=Node,RBAC",
        f"--token-auth-file={home}/tokens.csv",
        f"--tls-cert-file={home}/api.crt",
        f"--tls-private-key-file={home}/api.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={home}/accounts.key",
        f"--service-account-signing-key-file={home}/accounts.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--allow-privileged",
        "--enable-aggregator-routing",  # no kube-proxy here: the addresses of a service's endpoints are used
    )
    wait_for(lambda: cluster.kubectl("get", "--raw=/readyz"))
    client = f"--kubeconfig={home}/kubeconfig"
    cluster.start(
        "kube-controller-manager",
        client,
        f"--secure-port={ports.controllers}",
        f"--cert-dir={home}/controllers",
        "--leader-elect=false",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={home}/accounts.key",
        f"--root-ca-file={home}/ca.crt",
    )
    scheduler = (client, f"--secure-port={ports.scheduler}", f"--cert-dir={home}/scheduler", "--leader-elect=false")
    cluster.start("kube-scheduler", *scheduler)
    for image in images:
        wait_for(lambda image=image: cluster.import_image(image))  # type: ignore[misc]
    start_kubelet(cluster)
    wait_for(lambda: cluster.kubectl("wait", "--for=condition=Ready", f"node/{settings.NODE}", "--timeout=2s"))


def start_kubelet(cluster: Cluster) -> None:
    home = cluster.home
    cluster.start(
        "kubelet",
        f"--kubeconfig={home}/kubeconfig",
        f"--config={home}/kubelet.json",
        f"--root-dir={home}/kubelet",
        f"--cert-dir={home}/kubelet-certificates",
        f"--hostname-override={settings.NODE}",
        f"--node-ip={settings.GATEWAY}",
    )


def _stop_all(cluster: Cluster) -> None:
    for name in ("kubelet", *reversed([each for each in cluster.processes if each not in {"kubelet", "containerd"}])):
        if name in cluster.processes:
            cluster.stop(name)
    if "containerd" in cluster.processes:
        socket_ = ["ctr", "-a", f"{cluster.home}/containerd.sock", "-n", "k8s.io"]
        with contextlib.suppress(subprocess.CalledProcessError, subprocess.TimeoutExpired):
            for task in cluster.run(*socket_, "tasks", "list", "-q").split():
                cluster.run(*socket_, "tasks", "delete", "-f", task)
        cluster.stop("containerd")
    _end_shims(cluster.home)


def _end_shims(home: Path) -> None:
    """A shim outlives containerd; ours are known by the socket they were given."""
    for status in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = status.read_bytes().split(b"\0")
            if b"containerd-shim" in words[0] and f"{home}/containerd.sock".encode() in words:
                os.kill(int(status.parent.name), signal.SIGKILL)


def _remove_traces(home: Path) -> None:
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((each for each in mounts if each.startswith(f"{home}/")), reverse=True):
        subprocess.run(["umount", "-l", mount], check=False)
    for name in Path("/run/netns").glob("cni-*"):
        subprocess.run(["ip", "netns", "delete", name.name], check=False)
    for tree in Path("/sys/fs/cgroup").glob("*/kubepods"):
        with contextlib.suppress(NotYetError):
            wait_for(lambda tree=tree: _remove_cgroup(tree), 20)  # type: ignore[misc]
    shutil.rmtree("/var/log/containers", ignore_errors=True)


def _remove_cgroup(tree: Path) -> None:
    """Remove it and all below. Raises NotYetError while processes, which are asked to end, are still in it."""
    for procs in tree.rglob("cgroup.procs"):
        for pid in procs.read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    try:
        for folder in sorted((each for each in tree.rglob("*") if each.is_dir()), reverse=True):
            folder.rmdir()
        tree.rmdir()
    except OSError as error:
        raise NotYetError(str(error)) from None


def _restore_sysctls(before: dict[str, str]) -> None:
    for name, value in before.items():
        if Path("/proc/sys", name).read_text() != value:
            Path("/proc/sys", name).write_text(value)
