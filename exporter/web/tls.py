"""The section `tls_server_config`, and the TLS context made from it, which follows its files."""

from __future__ import annotations

import calendar
import contextlib
import logging
import os
import ssl
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from exporter.config.option import ConfigError
from exporter.core.site_file import read_bytes
from exporter.web.connection import ClientCertificatePolicy
from exporter.web.fields import Section, file_signatures

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {
    "NoClientCert": ssl.CERT_NONE,
    "RequestClientCert": ssl.CERT_NONE,  # Go lets in a client without a certificate, and one with any
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAnyClientCert": ssl.CERT_REQUIRED,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
    "RequireClientCert": ssl.CERT_REQUIRED,
}
_UNVERIFIED = frozenset({"RequireAnyClientCert", "RequireClientCert"})
"""Two names of one thing in the toolkit: a certificate is demanded, and any will do."""
_KEYS = (
    "cert", "cert_file", "key", "key_file", "client_ca", "client_ca_file", "client_auth_type", "client_allowed_sans",
    "min_version", "max_version", "cipher_suites", "prefer_server_cipher_suites", "curve_preferences",
)  # fmt: skip
CIPHERS: Mapping[str, str] = {
    "TLS_AES_128_GCM_SHA256": "",
    "TLS_AES_256_GCM_SHA384": "",
    "TLS_CHACHA20_POLY1305_SHA256": "",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
"""Go's names of its secure cipher suites to OpenSSL's; those of TLS 1.3 are always on, in Go as here."""
_DEFAULT = tuple({name: None for name in CIPHERS.values() if name and not name.endswith("-SHA")})
"""Suites of a file that names none, whatever the system's Python would offer: Ubuntu 24.04's has RSA without ECDHE."""
CURVES: Mapping[str, str] = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
}


@dataclass(frozen=True, slots=True)
class Tls:
    """Certificate, key and authority are PEM texts, or files that are read again when they change."""

    cert: Path | str
    key: Path | str
    client_ca: Path | str = ""
    client_auth: ssl.VerifyMode = ssl.CERT_NONE
    any_client_cert: bool = False
    """True if the certificate that is demanded is not verified."""
    allowed_sans: tuple[str, ...] = ()
    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    max_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ciphers: tuple[str, ...] = ()
    """OpenSSL's names, for TLS 1.2; its own choice when empty."""
    prefer_server_ciphers: bool = True
    curve: str = ""

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(part for part in (self.cert, self.key, self.client_ca) if isinstance(part, Path))

    @property
    def strictness(self) -> int:
        """More is stricter; a certificate of any kind is more than none, and less than a verified one."""
        return 2 * self.client_auth - self.any_client_cert


def parse_tls(section: Section) -> Tls | None:
    """None where the section is empty. Raises ConfigError."""
    if not section.values:
        return None
    section.only(*_KEYS)
    authority = _pem(section, "client_ca")
    auth = section.one_of("client_auth_type", _CLIENT_AUTH, "NoClientCert")
    if authority and section.text("client_auth_type") in {"", "NoClientCert"}:
        raise section.wrong("client_auth_type", "expected RequireAndVerifyClientCert with a client CA")
    unverified = section.text("client_auth_type") in _UNVERIFIED
    curve = _curve(section)
    if unverified:
        _check_any_client_cert(section, curve)
    oldest = section.one_of("min_version", _VERSIONS, "TLS12")
    newest = section.one_of("max_version", _VERSIONS, "TLS13")
    if oldest > newest:
        raise section.wrong("min_version", "expected one that is not above max_version")
    return Tls(
        cert=_needed(section, "cert"),
        key=_needed(section, "key"),
        client_ca=authority,
        client_auth=auth,
        any_client_cert=unverified,
        allowed_sans=_sans(section, verified=auth is ssl.CERT_REQUIRED and not unverified),
        min_version=oldest,
        max_version=newest,
        ciphers=_ciphers(section),
        prefer_server_ciphers=section.boolean("prefer_server_cipher_suites", default=True),
        curve=curve,
    )


def _check_any_client_cert(section: Section, curve: str) -> None:
    """Raise ConfigError where pyOpenSSL is missing, or cannot do what else the file asks for."""
    wanted = section.text("client_auth_type")
    try:
        from exporter.web.any_client_cert import CURVES as SETTABLE  # noqa: PLC0415 - an extra, and 16 MiB of memory
    except ImportError:
        needs = "needs the Python package pyOpenSSL: install gpu-exporter[any-client-cert]"
        raise section.wrong("client_auth_type", f"{wanted} {needs}") from None
    if curve and curve not in SETTABLE:
        raise section.wrong("curve_preferences", f"{curve} alone cannot be set with {wanted}")


def _pem(section: Section, key: str) -> Path | str:
    """The file `KEY_file`, or the text `KEY`; empty without either."""
    file, text = section.file(f"{key}_file"), section.text(key)
    if file and text:
        raise section.wrong(key, f"expected {key} or {key}_file, not both")
    return file or text


def _needed(section: Section, key: str) -> Path | str:
    found = _pem(section, key)
    if not found:
        raise section.wrong(f"{key}_file", f"tls_server_config needs {key}_file, or {key} with the PEM text")
    return found


def _sans(section: Section, *, verified: bool) -> tuple[str, ...]:
    sans = tuple(section.texts("client_allowed_sans"))
    if sans and not verified:
        raise section.wrong("client_allowed_sans", "needs client_auth_type: RequireAndVerifyClientCert")
    return sans


def _ciphers(section: Section) -> tuple[str, ...]:
    wanted = section.texts("cipher_suites")
    for name in wanted:
        if name not in CIPHERS:
            raise section.wrong("cipher_suites", f"{name!r} is none of Go's secure cipher suites: leave it out")
    return tuple(dict.fromkeys(CIPHERS[name] for name in wanted if CIPHERS[name]))


def _curve(section: Section) -> str:
    wanted = section.texts("curve_preferences")
    for name in wanted:
        if name not in CURVES:
            raise section.wrong("curve_preferences", f"expected one of {', '.join(CURVES)}, got {name!r}")
    if 1 < len(set(wanted)) < len(CURVES):
        raise section.wrong("curve_preferences", "Python's TLS can be told one curve, or all of them")
    return CURVES[wanted[0]] if len(set(wanted)) == 1 else ""


log = logging.getLogger(__name__)


def context(tls: Tls) -> ssl.SSLContext:
    """Build the server's context. Raises ConfigError with one line that names the file."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version, made.maximum_version = tls.min_version, tls.max_version
    try:
        return _configure(made, tls)
    except (OSError, ValueError) as error:
        where = ", ".join(map(str, tls.files)) or "tls_server_config"
        raise ConfigError(f"--web.config.file: {where}: {error}") from None


def _configure(made: ssl.SSLContext, tls: Tls) -> ssl.SSLContext:
    if tls.client_ca:
        with _readable(tls.client_ca) as authority:
            made.load_verify_locations(authority)
    elif tls.client_auth is not ssl.CERT_NONE:
        made.load_default_certs(ssl.Purpose.CLIENT_AUTH)  # as in Go: the authorities of the system
    made.verify_mode = tls.client_auth
    made.set_ciphers(":".join(tls.ciphers or _DEFAULT))
    made.options |= ssl.OP_NO_RENEGOTIATION  # OpenSSL before 3 would shake hands as often as a client asks
    if not tls.prefer_server_ciphers:
        made.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    if tls.curve:
        made.set_ecdh_curve(tls.curve)
    with _readable(tls.cert) as cert, _readable(tls.key) as key:
        made.load_cert_chain(cert, key, password=_refused)
        if tls.any_client_cert:
            from exporter.web.any_client_cert import AnyClientCert  # noqa: PLC0415 - the same

            return cast("ssl.SSLContext", AnyClientCert(made, cert, key, tls.curve))  # all that asyncio calls of it
    return made


def _refused() -> str:
    """Asked for the pass phrase of a key: OpenSSL would ask on the terminal, and wait there."""
    raise ValueError("the key has a pass phrase: expected one without")


@contextlib.contextmanager
def _readable(pem: Path | str) -> Generator[str]:
    """A path OpenSSL can read: memory that holds the text. It would wait at a pipe, and no key is written to a disk."""
    text, memory = _text(pem), os.memfd_create("pem")
    try:
        os.write(memory, text.encode("utf-8", "surrogateescape"))
        yield f"/proc/self/fd/{memory}"
    finally:
        os.close(memory)


def _text(pem: Path | str) -> str:
    """The text of a file, or the text itself. Raises ConfigError."""
    if isinstance(pem, str):
        return pem
    try:
        return read_bytes(pem).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise ConfigError(f"--web.config.file: {pem}: {error.strerror or error}") from None


class Certificates:
    """The context for each new connection, with the certificate that is on disk now."""

    def __init__(self, tls: Tls, *, watched: bool = False) -> None:
        """`watched`: somebody calls `refresh`; else each new connection does."""
        self._tls = tls
        self._context = context(tls)
        self._seen = file_signatures(tls.files)
        self.watched = watched
        self.success = True
        """True if the files as they are now are in use."""
        self.demands = _demands(tls)
        """Demands that a client must meet now."""
        self.expiry = expiry(_text(tls.cert))
        """Unix seconds of the end of the certificate in use; None where it does not say."""

    def use(self, tls: Tls) -> None:
        """Other settings from now on. Raises ConfigError, and keeps those that work."""
        self._context, self._tls, self._seen = context(tls), tls, file_signatures(tls.files)
        self.success, self.expiry, self.demands = True, expiry(_text(tls.cert)), _demands(tls)

    def context(self) -> ssl.SSLContext:
        if not self.watched:
            self.refresh()
        return self._context

    def refresh(self) -> None:
        seen = file_signatures(self._tls.files)
        if seen != self._seen:
            self._seen = seen
            try:
                self.use(self._tls)
            except ConfigError as error:  # half-written: keep the certificate that works until the files change again
                self.success = False
                log.warning("certificate not read again: %s", error)
            else:
                log.info("certificate read again")


def _demands(tls: Tls) -> ClientCertificatePolicy:
    return ClientCertificatePolicy(tls.strictness, frozenset(tls.allowed_sans), _text(tls.client_ca))


_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_VERSION = 0xA0
_UTC_TIME = 0x17
_LONG = 0x80


def expiry(pem: str) -> float | None:
    """Unix seconds of the end of the first certificate of a chain, the server's own; None where there is none."""
    try:
        begin = pem.index(_BEGIN)
        return not_after(ssl.PEM_cert_to_DER_cert(pem[begin : pem.index(_END, begin) + len(_END)]))
    except (ValueError, IndexError, StopIteration):
        return None


def not_after(der: bytes) -> float:
    """The end of validity (RFC 5280, 4.1). Raises ValueError, IndexError or StopIteration where it is none."""
    certificate = next(_elements(der))[1]
    fields = list(_elements(next(_elements(certificate))[1]))
    # After the optional version: serial number, algorithm, issuer, validity.
    _, validity = fields[4 if fields[0][0] == _VERSION else 3]
    tag, text = list(_elements(validity))[1]
    form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
    return float(calendar.timegm(time.strptime(text.decode("ascii"), form)))


def _elements(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each element in a row."""
    at = 0
    while at < len(der):
        tag, length, at = der[at], der[at + 1], at + 2
        if length >= _LONG:
            size = length - _LONG
            length, at = int.from_bytes(der[at : at + size], "big"), at + size
        yield tag, der[at : at + length]
        at += length
