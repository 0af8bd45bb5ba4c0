"""The web configuration file of Prometheus exporters, read again when it changes: TLS, passwords, headers, rate limit.

docs/web-configuration.md has it key by key.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exporter.config.option import ConfigError
from exporter.core.clock import MonotonicClock, monotonic_time
from exporter.core.site_file import FILES_SECONDS, SiteFileError, load_yaml
from exporter.core.threads import Threads
from exporter.core.worker import Worker
from exporter.web.app import Policy
from exporter.web.auth import BasicAuth, TokenBucket
from exporter.web.fields import OPTION, Section, file_signatures

if TYPE_CHECKING:
    from exporter.web.tls import Certificates, Tls

_BCRYPT = re.compile(r"\$2[aby]\$(?:0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PIECE = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_DURATION = re.compile(f"(?:{_PIECE.pattern})+")
_HEADERS: Mapping[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
"""Headers that may be set, and their values where not every one has a meaning."""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """One request per `interval` seconds, and `burst` at once."""

    interval: float
    burst: int


@dataclass(frozen=True, slots=True)
class WebFile:
    """Contents of the file. `users` maps a name to its bcrypt hash; empty means no authentication."""

    tls: Tls | None = None
    users: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: tuple[tuple[str, str], ...] = ()
    rate_limit: RateLimit | None = None


def load(path: Path) -> WebFile:
    """Read the file. Raises ConfigError with one line that names the file and what was expected."""
    try:
        content = load_yaml(path)
    except SiteFileError as error:
        raise ConfigError(f"{OPTION} {path}: {error}") from None
    top = Section.of(path, "", content if content is not None else {})
    top.only("tls_server_config", "http_server_config", "basic_auth_users", "rate_limit")
    http = top.section("http_server_config")
    http.only("http2", "headers")
    http.boolean("http2", default=True)  # checked, and without effect: this server speaks HTTP/1.1
    tls = None
    if (section := top.section("tls_server_config")).values:
        from exporter.web.tls import parse_tls  # noqa: PLC0415 - OpenSSL is loaded where TLS is served

        tls = parse_tls(section)
    return WebFile(
        tls=tls,
        users=_parse_users(top.section("basic_auth_users")),
        headers=tuple(_parse_headers(http.section("headers"))),
        rate_limit=_rate_limit(top.section("rate_limit")),
    )


def _parse_users(users: Section) -> dict[str, str]:
    for name, hashed in users.values.items():
        if not isinstance(hashed, str) or not _BCRYPT.fullmatch(hashed):
            raise users.wrong(str(name), "expected a bcrypt hash")
    return {str(name): str(hashed) for name, hashed in users.values.items()}


def _parse_headers(headers: Section) -> list[tuple[str, str]]:
    headers.only(*_HEADERS)
    made: list[tuple[str, str]] = []
    for name, value in headers.values.items():
        text, known = str(value if value is not None else ""), _HEADERS[name]
        if not (text.isascii() and text.isprintable()):
            raise headers.wrong(name, "expected one line of ASCII characters")
        if text and known and text.lower() not in known:
            raise headers.wrong(name, f"expected {' or '.join(known)}, got {text!r}")
        made += [(name, text)] if text else []
    return made


def _rate_limit(limit: Section) -> RateLimit | None:
    limit.only("interval", "burst")
    interval, burst = _parse_seconds(limit, limit.values.get("interval", 0)), limit.values.get("burst", 0)
    if not interval:
        return None
    if isinstance(burst, bool) or not isinstance(burst, int) or burst < 1:
        raise limit.wrong("burst", f"expected a number from 1 on, got {burst!r}: with 0 no request would be answered")
    return RateLimit(interval, burst)


def _parse_seconds(limit: Section, value: Any) -> float:
    text = str(value)
    if text == "0":
        return 0.0
    if not _DURATION.fullmatch(text):
        raise limit.wrong("interval", f"expected a duration such as 500ms, 1s or 1m30s, got {value!r}")
    return sum(float(number) * _UNITS[unit] for number, unit in _PIECE.findall(text))


log = logging.getLogger(__name__)


_GUARDS: Mapping[str, Callable[[WebFile], int]] = {
    "passwords": lambda config: bool(config.users),
    "client certificates": lambda config: config.tls.strictness if config.tls else 0,
    "names in client certificates": lambda config: bool(config.tls and config.tls.allowed_sans),
}
"""Means that keep strangers out, and how strictly: a file that is half-written as it is read must not let them in."""


@dataclass(frozen=True, slots=True)
class WebHealth:
    """`certificate_expiry` is Unix seconds, None without TLS."""

    reload_success: bool
    certificate_expiry: float | None = None


class WebSettings:
    """Current contents of the file. Where it cannot be used, the last good contents stay, and `health` reports it."""

    def __init__(
        self, path: Path | None, threads: Threads | None = None, clock: MonotonicClock = monotonic_time
    ) -> None:
        """Read the file. With `threads`, only `refresh` does it again: its mount may hang. Raises ConfigError."""
        self._path = path
        self._clock = clock
        self._seen = self._file_stamps()
        self._config = load(path) if path else WebFile()
        self._policy = self._made(self._config, None)
        self._success = self._answers = True
        self._threads = threads
        self._reader: Worker[bool] | None = None
        self.certificates: Certificates | None = None
        if self._config.tls:
            from exporter.web.tls import Certificates  # noqa: PLC0415 - OpenSSL is loaded where TLS is served

            self.certificates = Certificates(self._config.tls, watched=threads is not None)

    def refresh(self) -> None:
        """Read the files that have changed, in a thread of their own. While they do not answer, all stays as it was."""
        if self._path is not None and self._threads is not None:
            self._reader = self._reader or Worker("web-files", self._threads)
            answers = bool(self._reader.run(self._read, FILES_SECONDS))
            if self._answers and not answers:
                log.warning("%s and its certificates do not answer in %g s", self._path, FILES_SECONDS)
            self._answers = answers

    def policy(self) -> Policy:
        """Return the rules for requests. Without threads, a changed file is read first."""
        if self._threads is None:
            self._read()
        return self._policy

    def _read(self) -> bool:
        if self._path is not None and self._file_stamps() != self._seen:
            self._seen = self._file_stamps()
            self._reload_file(self._path)
        if self.certificates and self.certificates.watched:
            self.certificates.refresh()
        return True

    def health(self) -> WebHealth | None:
        """None without a file."""
        if self._path is None:
            return None
        self.policy()
        success = self._success and self._answers
        if self.certificates is None:
            return WebHealth(success)
        self.certificates.context()
        return WebHealth(success and self.certificates.success, self.certificates.expiry)

    def _reload_file(self, path: Path) -> None:
        try:
            found = self._load_file(path)
            if found.tls and self.certificates and found.tls != self._config.tls:
                self.certificates.use(found.tls)
        except ConfigError as error:
            self._success = False
            log.warning("not read again: %s", error)
            return
        self._policy = self._made(found, self._policy)
        self._config, self._success = found, True
        log.info("%s read again", path)

    def _load_file(self, path: Path) -> WebFile:
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
        self.refresh()
        self.policy()

    def _made(self, config: WebFile, before: Policy | None) -> Policy:
        """Passwords known to be right stay known while their users stay the same."""
        keep = before is not None and config.users == self._config.users
        limit = config.rate_limit
        allows = TokenBucket(limit.interval, limit.burst, self._clock).take if limit else lambda: True
        return Policy(before.auth if before and keep else BasicAuth(config.users), config.headers, allows)

    def _file_stamps(self) -> tuple[tuple[int, int, int], ...]:
        return file_signatures((self._path,)) if self._path else ()
