"""TLS for the HTTP server; certificates are read again when they change."""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
from collections.abc import Generator
from pathlib import Path

from exporter.config.option import ConfigError
from exporter.web.certificate import Demands, expiry
from exporter.web.stamps import stamps
from exporter.web.tls_settings import Tls

log = logging.getLogger(__name__)


def context(tls: Tls) -> ssl.SSLContext:
    """Build the server's context. Raises ConfigError with one line that names the file."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version, made.maximum_version = tls.min_version, tls.max_version
    for path in tls.files:
        try:
            path.read_bytes()
        except OSError as error:
            raise ConfigError(f"--web.config.file: {path}: {error.strerror or error}") from None
    try:
        _configure(made, tls)
    except (OSError, ValueError) as error:
        where = ", ".join(map(str, tls.files)) or "tls_server_config"
        raise ConfigError(f"--web.config.file: {where}: {error}") from None
    return made


def _configure(made: ssl.SSLContext, tls: Tls) -> None:
    with _readable(tls.cert) as cert, _readable(tls.key) as key:
        made.load_cert_chain(cert, key, password=_refused)
    if tls.client_ca:
        with _readable(tls.client_ca) as authority:
            made.load_verify_locations(authority)
    made.verify_mode = tls.client_auth
    if tls.ciphers:
        made.set_ciphers(":".join(tls.ciphers))
    made.options |= ssl.OP_NO_RENEGOTIATION  # OpenSSL before 3 would shake hands as often as a client asks
    if not tls.prefer_server_ciphers:
        made.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    if tls.curve:
        made.set_ecdh_curve(tls.curve)


def _refused() -> str:
    """Asked for the pass phrase of a key: OpenSSL would ask on the terminal, and wait there."""
    raise ValueError("the key has a pass phrase: expected one without")


@contextlib.contextmanager
def _readable(pem: Path | str) -> Generator[str]:
    """A path OpenSSL can read: the file, or memory that holds the text, so that no key is written to a disk."""
    if isinstance(pem, Path):
        yield str(pem)
        return
    memory = os.memfd_create("pem")
    try:
        os.write(memory, pem.encode())
        yield f"/proc/self/fd/{memory}"
    finally:
        os.close(memory)


class Certificates:
    """The context for each new connection, with the certificate that is on disk now."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._context = context(tls)
        self._seen = stamps(tls.files)
        self.success = True
        """Whether the files as they are now are in use."""
        self.demands = _demands(tls)
        """What a client must prove now."""
        self.expiry = _expiry(tls)
        """Unix seconds of the end of the certificate in use; None where it does not say."""

    def use(self, tls: Tls) -> None:
        """Other settings from now on. Raises ConfigError, and keeps those that work."""
        self._context, self._tls, self._seen = context(tls), tls, stamps(tls.files)
        self.success, self.expiry, self.demands = True, _expiry(tls), _demands(tls)

    def context(self) -> ssl.SSLContext:
        seen = stamps(self._tls.files)
        if seen != self._seen:
            self._seen = seen
            try:
                self.use(self._tls)
            except ConfigError as error:  # half-written: keep the certificate that works until the files change again
                self.success = False
                log.warning("certificate not read again: %s", error)
            else:
                log.info("certificate read again")
        return self._context


def _demands(tls: Tls) -> Demands:
    authority = tls.client_ca if isinstance(tls.client_ca, str) else tls.client_ca.read_text(errors="replace")
    return Demands(int(tls.client_auth), frozenset(tls.allowed_sans), authority)


def _expiry(tls: Tls) -> float | None:
    try:
        return expiry(tls.cert if isinstance(tls.cert, str) else tls.cert.read_text())
    except (OSError, ValueError):
        return None
