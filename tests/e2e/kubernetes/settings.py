"""Configuration of each part of the one-node cluster, as functions of where it lies."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

NODE = "gpu-node-1"
BRIDGE = "gpue2e0"
SUBNET = "10.89.77"
GATEWAY = f"{SUBNET}.1"
TOKEN = "end-to-end"  # noqa: S105 - of a cluster that lives for minutes on this machine


@dataclass(frozen=True, slots=True)
class Ports:
    etcd: int
    etcd_peer: int
    api: int
    controllers: int
    scheduler: int
    kubelet: int
    prometheus: int
    operator: int
    adapter: int


def containerd(home: Path, binaries: Path, runtime: Path) -> str:
    return f"""\
version = 2
root = "{home}/containerd/root"
state = "{home}/containerd/state"
oom_score = 0
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
address = "{home}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "localhost/pause:1"
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{binaries}/usr/lib/cni"
conf_dir = "{home}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "{binaries}/usr/sbin/runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
BinaryName = "{runtime}"
"""


def network(home: Path) -> str:
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        "ipam": {
            "type": "host-local",
            "dataDir": f"{home}/cni-state",
            "ranges": [[{"subnet": f"{SUBNET}.0/24", "rangeStart": f"{SUBNET}.10"}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return json.dumps({"cniVersion": "0.4.0", "name": "e2e", "plugins": [bridge]})


def kubelet(home: Path, ports: Ports) -> str:
    return json.dumps(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{home}/containerd.sock",
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": False,
            "failSwapOn": False,
            "oomScoreAdj": 0,
            "makeIPTablesUtilChains": False,
            "enforceNodeAllocatable": [],
            "podLogsDir": f"{home}/pod-logs",
            "port": ports.kubelet,
            "healthzPort": 0,
            "imageGCHighThresholdPercent": 100,  # never: the images are nowhere to be pulled from again
            "evictionHard": {"memory.available": "1Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        }
    )


def kubeconfig(ports: Ports, authority: Path) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "e2e",
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
            "clusters": [
                {
                    "name": "e2e",
                    "cluster": {"server": f"https://{GATEWAY}:{ports.api}", "certificate-authority": str(authority)},
                }
            ],
            "users": [{"name": "e2e", "user": {"token": TOKEN}}],
        }
    )
