"""Basic authentication against the bcrypt hashes of the web configuration file."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import threading
from collections.abc import Mapping

import bcrypt

_CACHED = 100
"""Answers remembered: bcrypt is slow on purpose, and a scrape comes every few seconds."""


class BasicAuth:
    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = dict(users)
        self._salt = os.urandom(16)
        self._known: dict[bytes, bool] = {}
        self._lock = threading.Lock()
        # Compared against for unknown names, so that the time taken does not tell which names exist.
        self._decoy = next(iter(users.values()), "")

    def allows(self, header: str) -> bool:
        """Whether an `Authorization` header names a user with the right password. True with no users at all."""
        if not self._users:
            return True
        name, password = _credentials(header)
        hashed = self._users.get(name, self._decoy)
        key = hashlib.blake2b(f"{name}\0{hashed}\0{password}".encode(), key=self._salt).digest()
        with self._lock:
            known = self._known.get(key)
        if known is None:
            known = _matches(password, hashed) and name in self._users
            with self._lock:
                if len(self._known) >= _CACHED:
                    self._known.clear()
                self._known[key] = known
        return known


def _credentials(header: str) -> tuple[str, str]:
    scheme, _, encoded = header.partition(" ")
    if not hmac.compare_digest(scheme.lower().encode(), b"basic"):
        return "", ""
    try:
        name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password


def _matches(password: str, hashed: str) -> bool:
    try:
        return bcrypt.checkpw(password.encode()[:72], hashed.encode())  # bcrypt reads no more than 72 bytes
    except ValueError:
        return False
