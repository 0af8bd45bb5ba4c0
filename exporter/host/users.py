"""Names of users, from a directory service that may be slow or away: asked beside the passes, never in one."""

from __future__ import annotations

import pwd
from pathlib import Path

from exporter.core.lookup import Lookup
from exporter.core.threads import Threads
from exporter.host.text import bounded, lines, natural, read_text

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


def account(uid: int, subordinate: Path = Path("/etc/subuid")) -> str | None:
    """The account's name; None where this host does not know it (a container's user), or its directory is away.

    Of a number that a user's own containers (rootless) run under: the user it was lent to, where that is one alone.
    """
    try:
        return bounded(pwd.getpwuid(uid).pw_name)
    except (KeyError, OverflowError):
        return _lent_to(uid, read_text(str(subordinate)))


def _lent_to(uid: int, text: str) -> str | None:
    """By the ranges of subuid(5), `USER:FIRST:COUNT`. Root's are for the containers of others, so they tell nothing."""
    entries = [line.split(":") for line in lines(text) if line.count(":") == 2]  # noqa: PLR2004 - as above
    users: set[str] = set()
    for user, first, count in entries:
        start, size = natural(first), natural(count.strip())
        if start is not None and size is not None and start <= uid < start + size:
            users.add(user)
    if len(users) != 1:
        return None
    user = users.pop()
    try:
        known = pwd.getpwuid(int(user)) if natural(user) is not None else pwd.getpwnam(user)
    except (KeyError, OverflowError, ValueError):
        return None  # left behind by a user who has gone
    return bounded(known.pw_name) if known.pw_uid else None
