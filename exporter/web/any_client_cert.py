"""TLS that demands a certificate of each client and verifies none of them, as Go's RequireAnyClientCert does.

Python's ssl either verifies a certificate or does not ask for one, so this is pyOpenSSL, in the shape asyncio calls.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable, Mapping
from typing import TypeVar

from cryptography.hazmat.primitives.asymmetric import ec
from OpenSSL import SSL

T = TypeVar("T")

CURVES: Mapping[str, ec.EllipticCurve] = {
    "prime256v1": ec.SECP256R1(),
    "secp384r1": ec.SECP384R1(),
    "secp521r1": ec.SECP521R1(),
}
"""Curves that pyOpenSSL can be limited to."""
_CHUNK_BYTES = 16 * 1024
"""Bytes taken at once from what a client sent: the rest stays where asyncio counts it, and stops reading."""
_OPTIONS = SSL.OP_ALL | SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION


def _accept(*_: object) -> bool:
    """Whatever is wrong with a certificate. The client still proves that it has the key."""
    return True


class AnyClientCert:
    """Context with the settings of a verifying one."""

    def __init__(self, like: ssl.SSLContext, cert: str, key: str, curve: str) -> None:
        """`cert` and `key` are those that `like` has read. Raises ValueError."""
        made = SSL.Context(SSL.TLS_SERVER_METHOD)
        suites = [str(each["name"]) for each in like.get_ciphers() if each["protocol"] != "TLSv1.3"]
        try:
            made.set_min_proto_version(like.minimum_version)
            made.set_max_proto_version(like.maximum_version)
            made.set_cipher_list(f"@SECLEVEL={like.security_level}:{':'.join(suites)}".encode())
            made.use_certificate_chain_file(cert)
            made.use_privatekey_file(key)
        except SSL.Error as error:
            raise ValueError(f"not taken by pyOpenSSL: {error}") from None
        made.set_options(_OPTIONS | like.options & SSL.OP_CIPHER_SERVER_PREFERENCE)
        if curve:
            made.set_tmp_ecdh(CURVES[curve])
        made.set_session_id(b"gpu-exporter")  # OpenSSL resumes no session with a client certificate without one
        made.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT, _accept)
        self._context = made

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *, server_side: bool, server_hostname: str | None
    ) -> _Stream:
        del server_side, server_hostname  # a server always
        return _Stream(SSL.Connection(self._context), incoming, outgoing)


class _Stream:
    """The methods of ssl.SSLObject that asyncio calls."""

    def __init__(self, tls: SSL.Connection, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
        self._tls, self._incoming, self._outgoing = tls, incoming, outgoing
        tls.set_accept_state()

    def do_handshake(self) -> None:
        self._run(self._tls.do_handshake)

    def read(self, size: int, buffer: memoryview | None = None) -> bytes | int:
        try:
            return self._run(lambda: self._tls.recv(size) if buffer is None else self._tls.recv_into(buffer, size))
        except ssl.SSLZeroReturnError:
            return b"" if buffer is None else 0

    def write(self, data: bytes | memoryview) -> int:
        return self._run(lambda: self._tls.send(data))

    def unwrap(self) -> None:
        """Send the end of TLS, and take the client's: the second call, as the first does not wait for it."""
        self._run(lambda: self._tls.shutdown() or self._tls.shutdown())

    def getpeercert(self) -> dict[str, object]:
        """Return nothing, as ssl does of a certificate that is not verified."""
        return {}

    def cipher(self) -> tuple[str | None, str | None, int | None]:
        return self._tls.get_cipher_name(), self._tls.get_cipher_version(), self._tls.get_cipher_bits()

    def compression(self) -> None:
        return None

    def _run(self, act: Callable[[], T]) -> T:
        try:
            while True:
                try:
                    return act()
                except SSL.WantReadError:
                    if not (data := self._incoming.read(_CHUNK_BYTES)):
                        raise ssl.SSLWantReadError from None
                    self._tls.bio_write(data)
        except SSL.ZeroReturnError:
            raise ssl.SSLZeroReturnError from None
        except SSL.Error as error:
            raise ssl.SSLError(ssl.SSL_ERROR_SSL, str(error)) from None
        finally:
            with contextlib.suppress(SSL.WantReadError):  # until there is no more
                while True:
                    self._outgoing.write(self._tls.bio_read(_CHUNK_BYTES))
