"""TLS for the HTTP server: the handshake runs on the request's thread, certificates are re-read when they change."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Collection, Generator, Mapping
from pathlib import Path
from typing import Any, cast

from cheroot import makefile

from exporter.config.option import ConfigError
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
    except (ssl.SSLError, ValueError) as error:
        where = ", ".join(map(str, tls.files)) or "tls_server_config"
        raise ConfigError(f"--web.config.file: {where}: {error}") from None
    return made


def _configure(made: ssl.SSLContext, tls: Tls) -> None:
    with _readable(tls.cert) as cert, _readable(tls.key) as key:
        made.load_cert_chain(cert, key)
    if tls.client_ca:
        with _readable(tls.client_ca) as authority:
            made.load_verify_locations(authority)
    made.verify_mode = tls.client_auth
    if tls.ciphers:
        made.set_ciphers(":".join(tls.ciphers))
    if not tls.prefer_server_ciphers:
        made.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    if tls.curve:
        made.set_ecdh_curve(tls.curve)
    if tls.allowed_sans:
        made.sslsocket_class = named(tls.allowed_sans)


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


def named(allowed: Collection[str]) -> type[ssl.SSLSocket]:
    """Connections whose client must name itself by one of these subject alternative names."""

    class Named(ssl.SSLSocket):
        _known = False

        def recv_into(self, *arguments: Any) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
            self._know()
            return super().recv_into(*arguments)

        def recv(self, *arguments: Any) -> bytes:  # pyright: ignore[reportIncompatibleMethodOverride]
            self._know()
            return super().recv(*arguments)

        def _know(self) -> None:
            if self._known:
                return
            self.do_handshake()
            self._known = not names_of(self.getpeercert()).isdisjoint(allowed)
            if not self._known:
                self.shutdown(socket.SHUT_RDWR)  # no answer, not even a refusal in HTTP
                raise ConnectionResetError("the client's certificate has none of client_allowed_sans")

    return Named


def names_of(certificate: Mapping[str, Any] | None) -> frozenset[str]:
    """The subject alternative names of a certificate as Python shows it."""
    return frozenset(str(value) for _, value in (certificate or {}).get("subjectAltName", ()))


class ReloadingAdapter:
    """Wraps each new connection with the certificate that is on disk now (cheroot's adapter protocol).

    The handshake is left to the thread that reads the request: done here it would run on the accepting thread,
    where one client that never finishes it would keep all others waiting.
    """

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self.context = context(tls)
        self._seen = _stamps(tls.files)

    def bind(self, sock: Any) -> Any:
        return sock

    def wrap(self, sock: Any) -> tuple[Any, dict[str, str]]:
        self._reload()
        wrapped = self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        return wrapped, self.get_environ()

    def get_environ(self) -> dict[str, str]:
        return {"wsgi.url_scheme": "https", "HTTPS": "on"}

    def makefile(self, sock: Any, mode: str = "r", bufsize: int = -1) -> Any:
        return cast("Any", makefile).MakeFile(sock, mode, bufsize)

    def _reload(self) -> None:
        stamps = _stamps(self._tls.files)
        if stamps == self._seen:
            return
        try:
            self.context = context(self._tls)
        except ConfigError as error:  # half-written: keep the certificate that works, and look again next time
            log.warning("certificate not re-read: %s", error)
        else:
            self._seen = stamps
            log.info("certificate re-read from %s", self._tls.cert)


def _stamps(files: tuple[Path, ...]) -> tuple[tuple[int, int, int], ...]:
    def stamp(path: Path) -> tuple[int, int, int]:
        try:
            status = path.stat()
        except OSError:
            return (0, 0, 0)
        return (status.st_mtime_ns, status.st_size, status.st_ino)

    return tuple(stamp(path) for path in files)
