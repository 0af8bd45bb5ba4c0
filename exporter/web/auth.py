"""Basic authentication against the bcrypt hashes of the web configuration file.

bcrypt is slow on purpose. So the password that was right is remembered, one for each user; passwords not seen before
are checked one at a time, and a peer that guessed wrong a few times has to wait.
"""

from __future__ import annotations

import base64
import binascii
import enum
import os
import threading
from collections.abc import Mapping

from exporter.core.clock import MonotonicClock, monotonic_time


class TokenBucket:
    """Holds up to `burst` tokens; one comes back every `interval` seconds, and each request takes one."""

    def __init__(self, interval: float, burst: int, clock: MonotonicClock) -> None:
        self._interval, self._burst, self._clock = interval, burst, clock
        self._tokens, self._filled = float(burst), clock()
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Return whether there was a token to take."""
        with self._lock:
            if not self._filled_up():
                return False
            self._tokens -= 1
            return True

    def empty(self) -> bool:
        """Return whether there is none to take now."""
        with self._lock:
            return not self._filled_up()

    def _filled_up(self) -> bool:
        now = self._clock()
        self._tokens = min(float(self._burst), self._tokens + (now - self._filled) / self._interval)
        self._filled = now
        return self._tokens >= 1


_GUESSES, _GUESS_SECONDS = 10, 2.0
"""Wrong passwords a peer may send at once, and seconds until it may send one more."""
_PEERS = 1024


class Verdict(enum.Enum):
    ALLOWED = "allowed"
    REFUSED = "refused"
    WAIT = "wait"
    """Too many wrong guesses from this peer."""


class BasicAuth:
    @property
    def required(self) -> bool:
        """Return whether requests need a password."""
        return bool(self._users)

    def __init__(self, users: Mapping[str, str], clock: MonotonicClock = monotonic_time) -> None:
        self._users = dict(users)
        self._clock = clock
        self._salt = os.urandom(16)
        self._right: dict[str, bytes] = {}
        """Stand-in for the right password, by user."""
        self._guesses: dict[str, TokenBucket] = {}
        self._lock = threading.Lock()
        # Compared against for unknown names, so that the time taken does not show which names exist.
        self._decoy = next(iter(users.values()), "")

    def known(self, header: str, peer: str = "") -> Verdict | None:
        """The verdict on an `Authorization` header where no password has to be checked for it."""
        if not self._users:
            return Verdict.ALLOWED
        name, password = _parse_credentials(header)
        if not name:
            return Verdict.REFUSED
        import hmac  # noqa: PLC0415 - loads OpenSSL, where there are passwords

        if hmac.compare_digest(self._right.get(name, b""), self._stands_for(password)):
            return Verdict.ALLOWED
        guesses = self._guesses.get(peer)
        return Verdict.WAIT if guesses is not None and guesses.empty() else None

    def check(self, header: str, peer: str = "") -> Verdict:
        """Return whether the header names a user with the right password, or there are no users. Takes its time."""
        known = self.known(header, peer)
        if known is not None:
            return known
        name, password = _parse_credentials(header)
        with self._lock:
            if not self._guess(peer).take():
                return Verdict.WAIT
            right = _password_matches(password, self._users.get(name, self._decoy)) and name in self._users
            if right:
                self._right[name] = self._stands_for(password)
                self._guesses.pop(peer, None)
        return Verdict.ALLOWED if right else Verdict.REFUSED

    def _guess(self, peer: str) -> TokenBucket:
        if peer not in self._guesses:
            while len(self._guesses) >= _PEERS:
                del self._guesses[next(iter(self._guesses))]
            self._guesses[peer] = TokenBucket(_GUESS_SECONDS, _GUESSES, self._clock)
        return self._guesses[peer]

    def _stands_for(self, password: str) -> bytes:
        import hashlib  # noqa: PLC0415 - the same

        return hashlib.blake2b(password.encode(), key=self._salt).digest()


def _parse_credentials(header: str) -> tuple[str, str]:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return "", ""
    return name, password


def _password_matches(password: str, hashed: str) -> bool:
    import bcrypt  # noqa: PLC0415 - loaded where there are passwords

    try:
        return bcrypt.checkpw(password.encode()[:72], hashed.encode())  # bcrypt reads no more than 72 bytes
    except ValueError:
        return False
