"""Names of users, from a directory service that may be slow or away: asked beside the passes, never in one."""

from __future__ import annotations

import pwd

from exporter.host.text import bounded
from exporter.threads.lookup import Lookup
from exporter.threads.runner import Threads

SOURCE = "user_database"
_MAX_NAMES = 512
"""Users that are remembered; a node with new ones every day would have thousands in the end."""


class UserNames:
    """Name by user id. The number as text until there is a name, and for a user that this host does not know."""

    def __init__(self, lookup: Lookup[int, str] | None = None) -> None:
        self._lookup = lookup or Lookup("users", account, limit=_MAX_NAMES)

    def start(self, threads: Threads) -> None:
        self._lookup.start(threads)

    def stop(self) -> None:
        self._lookup.stop()

    def name(self, uid: int) -> str:
        return self._lookup.get(uid) or str(uid)

    def health(self) -> tuple[bool, float] | None:
        """Whether it answers in time, and the age of the oldest open question; None while nobody was asked for."""
        return self._lookup.health()


def account(uid: int) -> str | None:
    """The account's name; None where this host does not know it (a container's user), or its directory is away."""
    try:
        return bounded(pwd.getpwuid(uid).pw_name)
    except (KeyError, OverflowError):
        return None
