"""Quantities that look alike, as types that do not mix: a fraction of a GPU, joules, watts, bytes and their rate.

They are plain numbers while the program runs, and cost nothing. For the type checker each is a number of its own: one
is never given where another is wanted, and what comes of arithmetic is named again by whoever knows what it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:

    class Fraction(float):
        """Part of one GPU or MIG instance, 0 to 1."""

    class Joules(float): ...

    class Watts(float): ...

    class Bytes(int): ...

    class BytesPerSecond(float): ...
else:
    Fraction = Joules = Watts = BytesPerSecond = float
    Bytes = int
