"""What the sources' names have in common: how far they are trusted, and how a program of no scheduler is called."""

from __future__ import annotations

from exporter.attribution.owner import Owner

EXACT, INFERRED, LOW = "exact", "inferred", "low"
"""Trust: by kernel or scheduler; by elimination, by a name or by a label; by what the user can write."""


def process_owner(command: str, user: str) -> Owner:
    """Return the owner of a program that nothing but its command and its user names."""
    return Owner(f"process:{of_user(user, command)}", kind="process", user=user)


def of_user(user: str, name: str) -> str:
    """Return a name that users choose, apart from the same name of other users and of the system."""
    return f"{user}/{name}" if user else name
