"""Names of containers that no scheduler runs, from the state files of Docker, Podman and containerd.

Files, not the engines' sockets: who may speak to such a socket is root on the node, and a folder can be mounted
read-only. Each container is read once, beside the passes.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from exporter.attribution.background_source import SourceError
from exporter.attribution.cgroup import Cgroup
from exporter.attribution.containers import engines
from exporter.attribution.containers.engines import CONTAINERD, DOCKER, PODMAN, Container
from exporter.attribution.ownership import SourceHealth
from exporter.core.lookup import Lookup
from exporter.core.threads import Threads

log = logging.getLogger(__name__)

SOURCE = "containers"
ENGINES: Mapping[str, str] = {
    "docker": DOCKER,
    "libpod": PODMAN,
    "libpod-payload": PODMAN,
    "containerd": CONTAINERD,
    "cri-containerd": CONTAINERD,
    "nerdctl": CONTAINERD,
}
"""By what cgroups call them."""
_RETRY_SECONDS = 60.0
_MAX_NAMES = 1024


@dataclass(frozen=True, slots=True)
class Folders:
    """Where the engines keep their state."""

    docker: Path = Path("/var/lib/docker")
    podman: Path = Path("/var/lib/containers/storage")
    containerd: Path = Path("/run/containerd")


class _Key(NamedTuple):
    engine: str
    """Empty where the cgroup does not report."""
    id: str
    namespace: str = ""


class ContainerNames:
    """`find` never waits for long. Without `folders` it knows nothing, and nothing is read."""

    def __init__(self, folders: Folders | None = None, *, required: bool = False) -> None:
        self._folders = folders
        self._required = required
        self._lookup: Lookup[_Key, Container] = Lookup("containers", self._ask, retry=_RETRY_SECONDS, limit=_MAX_NAMES)
        self._failed: dict[_Key, bool] = {}
        """Containers without a name here; whether that is because a file is not what it should be."""
        self._refusal_logged = False

    def start(self, threads: Threads) -> None:
        if self._folders:
            self._lookup.start(threads)

    def stop(self) -> None:
        self._lookup.stop()

    def find(self, cgroup: Cgroup) -> Container | None:
        """None where nobody knows it, or not yet. A user's own containers (rootless) are his word alone."""
        key = _key(cgroup)
        return self._lookup.get(key) if key and self._folders else None

    def waits(self, cgroup: Cgroup) -> bool:
        key = _key(cgroup)
        return bool(key and self._lookup.waits(key))

    def keep(self, cgroups: Iterable[Cgroup]) -> None:
        """Forget all others."""
        keys = {key for cgroup in cgroups if (key := _key(cgroup))}
        self._lookup.keep(keys)
        self._failed = {key: broken for key, broken in dict(self._failed).items() if key in keys}

    def health(self) -> Iterator[SourceHealth]:
        """Nothing while there is no container; what may not be read is a failure only where it must be."""
        health = self._lookup.health()
        if self._folders and health:
            in_time, waiting = health
            failed = any(broken or self._required for broken in list(self._failed.values()))
            yield SourceHealth(SOURCE, in_time and not failed, waiting)

    def _ask(self, key: _Key) -> Container | None:
        broken = False
        for engine in (key.engine,) if key.engine else (DOCKER, PODMAN, CONTAINERD):
            try:
                found = self._finder(engine)(key)
            except (SourceError, OSError) as error:
                found, broken = None, not self._refused(error)
                log.log(logging.WARNING if broken else logging.DEBUG, "container %.12s: %s", key.id, error)
            if found:
                self._failed.pop(key, None)
                return found
        if not key.namespace:  # a path that only looks like one of containerd's needs no name
            self._failed[key] = broken
        return None

    def _refused(self, error: Exception) -> bool:
        """Whether this exporter may not read: no fault of the file, and logged once."""
        if not isinstance(error, OSError) or error.errno not in (errno.EACCES, errno.EPERM):
            return False
        if not self._refusal_logged:
            self._refusal_logged = True
            log.info("containers go by their ids: %s", error)
        return True

    def _finder(self, engine: str) -> Callable[[_Key], Container | None]:
        folders = self._folders or Folders()
        finders: Mapping[str, Callable[[_Key], Container | None]] = {
            DOCKER: lambda key: engines.find_docker(folders.docker, key.id),
            PODMAN: lambda key: engines.find_podman(folders.podman, key.id),
            CONTAINERD: lambda key: engines.find_containerd(folders.containerd, key.id, key.namespace),
        }
        return finders[engine]


def _key(cgroup: Cgroup) -> _Key | None:
    if cgroup.delegated:
        return None
    if cgroup.container:
        engine = ENGINES.get(cgroup.runtime)
        return None if cgroup.runtime and not engine else _Key(engine or "", cgroup.container)
    if cgroup.bundle and not cgroup.unit:
        namespace, _, name = cgroup.bundle.partition("/")
        return _Key(CONTAINERD, name, namespace)
    return None
