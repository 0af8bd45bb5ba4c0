"""The Pod Security level of a pod spec, by Kubernetes' Pod Security Standards; apart from the chart's own answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Spec = Mapping[str, Any]

_BASELINE = (
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID SYS_CHROOT"
)
_VOLUMES = "configMap csi downwardAPI emptyDir ephemeral persistentVolumeClaim projected secret image"
_SYSCTLS = (
    "kernel.shm_rmid_forced net.ipv4.ip_local_port_range net.ipv4.ip_unprivileged_port_start net.ipv4.tcp_syncookies "
    "net.ipv4.ping_group_range net.ipv4.ip_local_reserved_ports net.ipv4.tcp_keepalive_time net.ipv4.tcp_fin_timeout "
    "net.ipv4.tcp_keepalive_intvl net.ipv4.tcp_keepalive_probes net.ipv4.tcp_rmem net.ipv4.tcp_wmem"
)
SAFE_SYSCTLS = frozenset(_SYSCTLS.split())
SELINUX_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"})
BASELINE_CAPABILITIES = frozenset(_BASELINE.split())
RESTRICTED_VOLUMES = frozenset(_VOLUMES.split())


def level(spec: Spec) -> str:
    if list(above_baseline(spec)):
        return "privileged"
    return "baseline" if list(above_restricted(spec)) else "restricted"


def above_baseline(spec: Spec) -> Iterator[str]:
    """What a namespace at level baseline refuses."""
    for flag in ("hostPID", "hostIPC", "hostNetwork"):
        if spec.get(flag):
            yield flag
    for volume in spec.get("volumes", ()):
        if "hostPath" in volume:
            yield f"volume {volume['name']}: hostPath"
    for context in _contexts(spec):
        yield from _context_above_baseline(context)
    for container in _containers(spec):
        yield from _container_above_baseline(container)


def _context_above_baseline(context: Spec) -> Iterator[str]:
    if context.get("seccompProfile", {}).get("type") == "Unconfined":
        yield "seccompProfile Unconfined"
    if {each["name"] for each in context.get("sysctls", ())} - SAFE_SYSCTLS:
        yield "sysctls"
    selinux = context.get("seLinuxOptions", {})
    if selinux.get("type", "") not in SELINUX_TYPES or selinux.get("user") or selinux.get("role"):
        yield "seLinuxOptions"
    if context.get("appArmorProfile", {}).get("type") == "Unconfined":
        yield "appArmorProfile Unconfined"


def _container_above_baseline(container: Spec) -> Iterator[str]:
    name, context = container["name"], container.get("securityContext", {})
    if context.get("privileged"):
        yield f"{name}: privileged"
    if context.get("procMount", "Default") != "Default":
        yield f"{name}: procMount"
    for capability in set(context.get("capabilities", {}).get("add", ())) - BASELINE_CAPABILITIES:
        yield f"{name}: capability {capability}"
    if any(port.get("hostPort") for port in container.get("ports", ())):
        yield f"{name}: hostPort"
    yield from _other_hosts(container)


def _other_hosts(container: Spec) -> Iterator[str]:
    handlers = {probe: container.get(probe, {}) for probe in ("livenessProbe", "readinessProbe", "startupProbe")}
    for name, handler in {**handlers, **container.get("lifecycle", {})}.items():
        if any(handler.get(kind, {}).get("host") for kind in ("httpGet", "tcpSocket")):
            yield f"{container['name']}: {name} host"


def above_restricted(spec: Spec) -> Iterator[str]:
    """What a namespace at level restricted refuses besides."""
    for volume in spec.get("volumes", ()):
        if not RESTRICTED_VOLUMES & set(volume):
            yield f"volume {volume['name']}"
    for container in _containers(spec):
        yield from _container_above_restricted(container, spec.get("securityContext", {}))


def _container_above_restricted(container: Spec, pod: Spec) -> Iterator[str]:
    name, own = container["name"], container.get("securityContext", {})
    context = {**pod, **own}
    if own.get("allowPrivilegeEscalation") is not False:
        yield f"{name}: allowPrivilegeEscalation"
    if "ALL" not in own.get("capabilities", {}).get("drop", ()):
        yield f"{name}: capabilities not dropped"
    if set(own.get("capabilities", {}).get("add", ())) - {"NET_BIND_SERVICE"}:
        yield f"{name}: capabilities added"
    if context.get("runAsNonRoot") is not True or context.get("runAsUser") == 0:
        yield f"{name}: may run as root"
    if context.get("seccompProfile", {}).get("type") not in {"RuntimeDefault", "Localhost"}:
        yield f"{name}: no seccomp profile"


def _containers(spec: Spec) -> Iterator[Spec]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(kind, ())


def _contexts(spec: Spec) -> Iterator[Spec]:
    yield spec.get("securityContext", {})
    for container in _containers(spec):
        yield container.get("securityContext", {})
