"""TLS for the HTTP server: the handshake runs on the request's thread, certificates are re-read when they change."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Any, cast

from cheroot import makefile

from exporter.config.option import ConfigError
from exporter.web.webconfig import Tls

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
        made.load_cert_chain(tls.cert_file, tls.key_file)
        if tls.client_ca_file:
            made.load_verify_locations(tls.client_ca_file)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"--web.config.file: {tls.cert_file}, {tls.key_file}: {error}") from None
    made.verify_mode = tls.client_auth
    return made


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
            log.info("certificate re-read from %s", self._tls.cert_file)


def _stamps(files: tuple[Path, ...]) -> tuple[tuple[int, int, int], ...]:
    def stamp(path: Path) -> tuple[int, int, int]:
        try:
            status = path.stat()
        except OSError:
            return (0, 0, 0)
        return (status.st_mtime_ns, status.st_size, status.st_ino)

    return tuple(stamp(path) for path in files)
