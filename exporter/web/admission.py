"""Which connections there is room for: when there are too many, the oldest silent one of the busiest peer gives way.

So whoever connects is heard, and idle connections, however many, only push out one another.
"""

from __future__ import annotations

import resource
from collections.abc import Callable

_MAX_PLAIN = 256
_MAX_TLS = 64
"""Each keeps some 80 KiB, most of it in OpenSSL."""
_RESERVED = 48
"""Descriptors that the rest of the process may need."""
_LEAST = 4


def room(limit: int | None = None, *, tls: bool = False) -> int:
    """How many connections the descriptors of this process and its memory allow."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if limit is None else limit
    return max(_LEAST, min(_MAX_TLS if tls else _MAX_PLAIN, (soft - _RESERVED) // 2))


class Admission:
    """Open connections by peer, each with what ends it. Belongs to the loop of connections."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._peers: dict[str, dict[int, Callable[[], None]]] = {}
        """Ends of the silent connections of each peer, the oldest first."""
        self._open: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, key: int, peer: str, end: Callable[[], None]) -> bool:
        """A new connection, silent so far; False where there is no room and none that could give way."""
        while len(self._open) >= self._limit:
            if not self.evict():
                return False
        self._open[key] = peer
        self._peers.setdefault(peer, {})[key] = end
        return True

    def served(self, key: int) -> None:
        """Its request is complete: it does not give way until it is silent again."""
        peer = self._open.get(key)
        if peer is not None:
            self._peers[peer].pop(key, None)

    def silent(self, key: int, end: Callable[[], None]) -> None:
        """Its answer is sent, another request may come."""
        peer = self._open.get(key)
        if peer is not None:
            self._peers[peer][key] = end

    def left(self, key: int) -> None:
        peer = self._open.pop(key, None)
        if peer is not None:
            self._peers[peer].pop(key, None)
            if not self._peers[peer]:
                self._forget(peer)

    def evict(self) -> bool:
        """End the oldest silent connection of the peer with most of them; whether there was one."""
        silent = {peer: ends for peer, ends in self._peers.items() if ends}
        if not silent:
            return False
        busiest = max(silent, key=lambda peer: len(silent[peer]))
        key, end = next(iter(silent[busiest].items()))
        end()
        self.left(key)
        return True

    def _forget(self, peer: str) -> None:
        if peer not in self._open.values():
            del self._peers[peer]
