"""The web configuration file while the exporter runs: read again whenever it has changed, as the toolkit does."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exporter.config.option import ConfigError
from exporter.core.clock import MonotonicClock, monotonic_time
from exporter.web.app import Policy
from exporter.web.auth import BasicAuth, Bucket
from exporter.web.certificate import stamps
from exporter.web.webconfig import WebFile, load

if TYPE_CHECKING:
    from exporter.web.tls import Certificates, Tls

log = logging.getLogger(__name__)


_GUARDS: Mapping[str, Callable[[WebFile], int]] = {
    "passwords": lambda config: bool(config.users),
    "client certificates": lambda config: config.tls.client_auth if config.tls else 0,
    "names in client certificates": lambda config: bool(config.tls and config.tls.allowed_sans),
}
"""What keeps strangers out, and how strictly: a file that is half-written as it is read must not let them in."""


@dataclass(frozen=True, slots=True)
class WebHealth:
    """`certificate_expiry` is Unix seconds, None without TLS."""

    reload_success: bool
    certificate_expiry: float | None = None


class WebSettings:
    """What the file holds now. Where it cannot be used, what it held last stays, and `health` says so."""

    def __init__(self, path: Path | None, clock: MonotonicClock = monotonic_time) -> None:
        """Raises ConfigError."""
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._seen = self._stamp()
        self._config = load(path) if path else WebFile()
        self._policy = self._made(self._config, None)
        self._success = True
        self.certificates = _certificates(self._config.tls) if self._config.tls else None

    def policy(self) -> Policy:
        """Looks at the file's time stamp, and reads it where that has changed."""
        if self._path is not None and self._stamp() != self._seen:
            with self._lock:
                self._reload(self._path)
        return self._policy

    def health(self) -> WebHealth | None:
        """None without a file."""
        if self._path is None:
            return None
        self.policy()
        if self.certificates is None:
            return WebHealth(self._success)
        self.certificates.context()
        return WebHealth(self._success and self.certificates.success, self.certificates.expiry)

    def _reload(self, path: Path) -> None:
        seen = self._stamp()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            found = self._loaded(path)
            if found.tls and self.certificates and found.tls != self._config.tls:
                self.certificates.use(found.tls)
        except ConfigError as error:
            self._success = False
            log.warning("not read again: %s", error)
            return
        self._policy = self._made(found, self._policy)
        self._config, self._success = found, True
        log.info("%s read again", path)

    def _loaded(self, path: Path) -> WebFile:
        found = load(path)
        if (found.tls is None) != (self.certificates is None):
            raise ConfigError(f"--web.config.file {path}: TLS is switched on or off by a restart only")
        for name, strength in _GUARDS.items():
            if strength(found) < strength(self._config):
                raise ConfigError(f"--web.config.file {path}: {name}: switched off by a restart only")
        return found

    def reload(self) -> None:
        """Read the file, changed or not."""
        self._seen = ()
        self.policy()

    def _made(self, config: WebFile, before: Policy | None) -> Policy:
        """Passwords known to be right stay known while their users stay the same."""
        keep = before is not None and config.users == self._config.users
        limit = config.rate_limit
        allows = Bucket(limit.interval, limit.burst, self._clock).take if limit else lambda: True
        return Policy(before.auth if before and keep else BasicAuth(config.users), config.headers, allows)

    def _stamp(self) -> tuple[tuple[int, int, int], ...]:
        return stamps((self._path,)) if self._path else ()


def _certificates(tls: Tls) -> Certificates:
    from exporter.web.tls import Certificates  # noqa: PLC0415 - OpenSSL is loaded where TLS is served

    return Certificates(tls)
