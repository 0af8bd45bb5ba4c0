"""Kubernetes on this node: the kubelet's allocations, and the names behind the pod uids in cgroups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from exporter.attribution.background_source import (
    LAST_KNOWN_SECONDS,
    MISSING,
    BackgroundSource,
    FailureLog,
    SourceError,
)
from exporter.attribution.devices import DeviceName
from exporter.attribution.kubernetes import pod_resources
from exporter.attribution.kubernetes.api_server import PodWatch
from exporter.attribution.kubernetes.owner_objects import OwnerObjects
from exporter.attribution.kubernetes.pod import Pod, PodName
from exporter.attribution.kubernetes.pod_resources import PodDevice
from exporter.attribution.owner import SourceHealth
from exporter.core.clock import NEVER, MonotonicClock, MonotonicTime, monotonic_time
from exporter.core.lookup import Lookup
from exporter.host.text import bounded, exists

POD_RESOURCES = "kubernetes"
INTERVAL_SECONDS = 5.0
_ASKED_EVERY = 24
"""Questions between two questions about allocatable devices and known slices: they change with the node's devices."""
_FORGET_SECONDS = 600.0
_LONGEST_PAUSE_SECONDS = 8.0
"""Pause between two questions to a kubelet that fails: with the time-out of the next one it is below 15 s."""
POD_LOGS = Path("/var/log/pods")
_PARTS = 3


def parse_log_names(names: Iterable[str]) -> Mapping[str, tuple[str, str]]:
    """Pod uid, as its cgroup carries it, to namespace and name; neither of those can hold an underscore."""
    split = (bounded(name, 1024).split("_") for name in names)
    return {parts[2]: (parts[0], parts[1]) for parts in split if len(parts) == _PARTS and all(parts)}


def logged_pods(folder: Path = POD_LOGS) -> Mapping[str, tuple[str, str]]:
    """Return the names by pod uid; empty if the directory cannot be listed."""
    try:
        return parse_log_names(each.name for each in folder.iterdir())
    except OSError:
        return {}


@dataclass(frozen=True, slots=True)
class KubernetesView:
    """Reports at one moment."""

    silent: bool = True
    """True if the kubelet has not reported its allocations for long, or never."""
    given: tuple[PodDevice, ...] = ()
    asked_at: MonotonicTime = NEVER
    """Time at which the kubelet was asked for them: its answer may lack pods that came later."""
    allocatable: frozenset[DeviceName] = frozenset()
    """Devices that the kubelet may allocate; empty if not reported (before Kubernetes 1.23, or DRA alone)."""
    pods: Mapping[str, Pod] = field(default_factory=dict[str, Pod])
    """Pods by the uid in their cgroups; empty without the API server."""
    logged: Mapping[str, PodName] = field(default_factory=dict[str, PodName])
    """Names by the same uid, from the kubelet's log directories; empty if they are not readable."""
    claimable: Mapping[str, str] = field(default_factory=dict[str, str])
    """UUIDs by the names of NVIDIA's DRA driver; empty without the API server, or while nobody needed them."""


@dataclass(frozen=True, slots=True)
class KubernetesSite:
    """Paths of the kubelet, and whether it must be there."""

    socket: Path
    required: bool = False
    logs: Path = POD_LOGS
    slices: Callable[[], Mapping[str, str]] | None = None
    """UUIDs by the names of NVIDIA's DRA driver, where the API server may be asked. Raises SourceError."""
    admin: Callable[[str], Collection[DeviceName]] | None = None
    """Devices that a claim only watches, where the API server may be asked. Raises SourceError."""


class Kubernetes:
    """Questions to the kubelet every few seconds and when a new pod appears, and to the API server if allowed."""

    def __init__(
        self,
        site: KubernetesSite,
        *,
        watch: PodWatch | None = None,
        owner_objects: OwnerObjects | None = None,
        interval: float = INTERVAL_SECONDS,
        timeout: float = 5.0,
        clock: MonotonicClock = monotonic_time,
    ) -> None:
        self._socket = site.socket
        self._timeout = timeout
        self._met = site.required
        self._watch = watch
        self.owner_objects = owner_objects
        self._logs = site.logs
        self._ask_slices = site.slices
        self._logged: Mapping[str, PodName] = {}
        self._claimable: Mapping[str, str] = {}
        self._claims_wanted = False
        self._allocatable: frozenset[DeviceName] = frozenset()
        self._queries = 0
        nothing: tuple[PodDevice, ...] = ()
        self._poller = BackgroundSource(
            self._ask_kubelet,
            nothing,
            name="pod-resources",
            interval=lambda _: interval,
            longest=max(interval, _LONGEST_PAUSE_SECONDS),
            clock=clock,
            failures=FailureLog(POD_RESOURCES),
        )

        self._admin = Lookup("kubernetes-claims", site.admin, clock=clock) if site.admin else None
        self.readers = [each for each in (self._poller, watch, owner_objects, self._admin) if each]

    @property
    def may_learn_pods(self) -> bool:
        """Return whether the API server is asked for pods: then it may still report new ones."""
        return self._watch is not None

    def wake(self) -> None:
        self._poller.wake()

    def expect(self) -> None:
        """Note that pods of this node run on its GPUs: the kubelet's socket must be there."""
        self._met = True

    def view(self, now: MonotonicTime) -> KubernetesView:
        """Return the last reports. The kubelet's counts for LAST_KNOWN_SECONDS after it fell silent."""
        answer = self._poller.answer
        stale = not answer.success and now - answer.at > LAST_KNOWN_SECONDS
        pods = self._watch.pods if self._watch else dict[str, Pod]()
        return KubernetesView(
            silent=stale or not self._queries,
            given=() if stale else self._allocated_devices(answer.value),
            asked_at=answer.asked_at,
            allocatable=frozenset() if stale else self._allocatable,
            pods=pods,
            logged=self._logged,
            claimable=self._claimable,
        )

    def _allocated_devices(self, listed: tuple[PodDevice, ...]) -> tuple[PodDevice, ...]:
        """Leave out the devices that a claim only watches."""
        if not self._admin:
            return listed
        watched = {claim: self._admin.get(claim) or () for claim in {each.claim for each in listed} - {""}}
        self._admin.keep(watched)
        return tuple(each for each in listed if each.device not in watched.get(each.claim, ()))

    def ask_claimable(self) -> None:
        """Have the API server asked for the DRA driver's names with the next question."""
        self._claims_wanted = True

    def health(self, now: MonotonicTime, conflicts: int, unresolved: Mapping[str, int]) -> tuple[SourceHealth, ...]:
        owners = self.owner_objects.health() if self.owner_objects else None
        watch = self._watch.health(now) if self._watch else None
        own = self._poller.health(POD_RESOURCES, now, conflicts) if self._met else None
        return tuple(each for each in (own and replace(own, unresolved=unresolved), watch, owners) if each)

    def _ask_kubelet(self) -> tuple[PodDevice, ...]:
        """Ask the kubelet. Raises SourceError."""
        self._logged = logged_pods(self._logs)
        due = self._queries % _ASKED_EVERY == 0
        if self._ask_slices and (self._claims_wanted or (due and self._claimable)):
            self._claims_wanted = False
            with suppress(SourceError):  # then it is asked for again, as long as it is needed
                self._claimable = self._ask_slices()
        if not exists(self._socket):
            if self._met:
                raise SourceError(
                    f"{self._socket}: no such socket; if the kubelet has another --root-dir, name its socket by "
                    "--attribution.kubernetes (chart: attribution.pods.kubeletDir)",
                    MISSING,
                )
            return ()
        self._met = True
        found = pod_resources.listed(self._socket, self._timeout)
        if due:
            with suppress(SourceError):  # an older kubelet: what it has given so far shows as much, later
                self._allocatable = pod_resources.allocatable(self._socket, self._timeout)
        self._queries += 1
        return found


def infer(
    running: Mapping[str, AbstractSet[str]], given: Mapping[str, AbstractSet[PodName]], known: Mapping[str, PodName]
) -> Mapping[str, PodName]:
    """Return names of pod uids from the devices of their processes, without the API server.

    A pod whose processes use some devices was allocated all of them. If only one such pod has no uid yet, it is that.
    `running`: uid to devices; `given`: device to pods; `known`: uid to pod.
    """
    found = dict(known)
    while True:
        taken = set(found.values())
        for uid, devices in running.items():
            pods = [set(given.get(each, ())) for each in devices if uid not in found]
            candidates = pods[0].intersection(*pods[1:]) - taken if pods else set[PodName]()
            if len(candidates) == 1:
                found[uid] = candidates.pop()
                break
        else:
            return found


class PodNames:
    """Names by pod uid, remembered for some time after the pod: a deleted pod's process may linger."""

    def __init__(self) -> None:
        self._names: dict[str, PodName] = {}
        self._since: dict[str, MonotonicTime] = {}
        self._seen: dict[str, MonotonicTime] = {}
        self.inferred: frozenset[str] = frozenset()

    def learn(
        self,
        view: KubernetesView,
        running: Mapping[str, AbstractSet[str]],
        given: Mapping[str, AbstractSet[PodName]],
        now: MonotonicTime,
    ) -> None:
        """Add one sampling cycle; `running` and `given` as in `infer`, by target uuid."""
        exact = {**view.logged, **{uid: pod.pod_name for uid, pod in view.pods.items()}}
        self._seen |= dict.fromkeys(running, now)
        self._names = {
            uid: name for uid, name in self._names.items() if now - self._seen.get(uid, NEVER) <= _FORGET_SECONDS
        }
        self._seen = {uid: at for uid, at in self._seen.items() if now - at <= _FORGET_SECONDS}
        self._since = {uid: self._since.get(uid, now) for uid in running}
        known = self._names | {uid: exact[uid] for uid in running if uid in exact}
        # A list that is older than the pod has the one that had its devices before.
        listed = {uid: devices for uid, devices in running.items() if self._since[uid] <= view.asked_at}
        if listed.keys() - known.keys():
            known = dict(infer(listed, given, known))
        self._names = known
        self.inferred = frozenset(known) - exact.keys()

    def name(self, uid: str) -> PodName | None:
        return self._names.get(uid)
