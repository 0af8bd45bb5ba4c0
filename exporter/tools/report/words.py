"""Numbers as a person reads them."""

from __future__ import annotations

import time

from exporter.ledger.palette import style_of

_GIB = 1 << 30
_JOULES_PER_KWH = 3.6e6

_FINDINGS = {"unused": "GPUs not used", "too_large": "GPU too large", "more_loaders": "Idle CPUs beside it",
             "unpinned": "Copies from the host", "mixed_precision": "Precision not known",
             "profile": "Profile it"}  # fmt: skip
"""Findings of the report itself, beside the states."""


def title(state: str) -> str:
    """A state as it is called everywhere; empty for none."""
    return _FINDINGS.get(state) or style_of(state).title


def percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio * 100:.0f} %"


def hours(amount: float | None) -> str:
    if amount is None:
        return "-"
    return f"{amount:,.1f} h" if amount >= 1 else f"{amount * 60:.1f} min"


def span(seconds: float) -> str:
    """`3 d 4 h`, `2 h 14 min`, `14 min`, `40 s`."""
    whole = round(seconds)
    days, rest = divmod(whole, 86400)
    hour, rest = divmod(rest, 3600)
    minute, second = divmod(rest, 60)
    parts = [(days, "d"), (hour, "h"), (minute, "min"), (second, "s")]
    shown = [f"{number} {unit}" for number, unit in parts if number]
    return " ".join(shown[:2]) or "0 s"


def when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def energy(joules: float) -> str:
    kwh = joules / _JOULES_PER_KWH
    return f"{kwh:,.1f} kWh" if kwh >= 1 else f"{kwh * 1000:,.0f} Wh"


def gib(size: float) -> str:
    return f"{size / _GIB:.1f} GiB"


def count(number: float) -> str:
    """Allocated GPUs: whole numbers mostly, parts where GPUs are shared."""
    return f"{number:.0f}" if abs(number - round(number)) < 0.005 else f"{number:.2f}"  # noqa: PLR2004 - half the last digit


def gpus(number: float | None) -> str:
    """`1 GPU`, `2.50 GPUs`; of a number that nobody knows the word alone."""
    if number is None:
        return "GPUs"
    shown = count(number)
    return "1 GPU" if shown == "1" else f"{shown} GPUs"


def money(amount: float, currency: str) -> str:
    return f"{amount:,.2f} {currency}".rstrip()


def amount(number: float) -> str:
    """Three figures of a small number, all before the point of a large one."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"  # noqa: PLR2004 - three figures
