"""The Pod Security level of a pod spec, by Kubernetes' Pod Security Standards; apart from the chart's own answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Spec = Mapping[str, Any]

_BASELINE = (
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID SYS_CHROOT"
)
_VOLUMES = "configMap csi downwardAPI emptyDir ephemeral persistentVolumeClaim projected secret image"
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
    if context.get("sysctls"):
        yield "sysctls"
    if context.get("appArmorProfile", {}).get("type") == "Unconfined":
        yield "appArmorProfile Unconfined"


def _container_above_baseline(container: Spec) -> Iterator[str]:
    name, context = container["name"], container.get("securityContext", {})
    if context.get("privileged"):
        yield f"{name}: privileged"
    for capability in set(context.get("capabilities", {}).get("add", ())) - BASELINE_CAPABILITIES:
        yield f"{name}: capability {capability}"
    if any(port.get("hostPort") for port in container.get("ports", ())):
        yield f"{name}: hostPort"
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if any(container.get(probe, {}).get(kind, {}).get("host") for kind in ("httpGet", "tcpSocket")):
            yield f"{name}: {probe} host"


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
