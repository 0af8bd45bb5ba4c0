"""Numbers as a person reads them."""

from __future__ import annotations

import time

_GIB = 1 << 30
_JOULES_PER_KWH = 3.6e6

TITLES = {
    "unobserved": "Unobserved",
    "free": "Free",
    "held_idle": "Held idle",
    "wait_storage": "Waits for storage",
    "wait_cpu": "Waits for CPU",
    "wait_peer": "Waits for peers",
    "wait_other": "Waits, cause unknown",
    "throttled_thermal": "Throttled by heat",
    "throttled_power_brake": "Power brake",
    "communication": "Communication",
    "memory_bound": "Memory bound",
    "small_kernels": "Small kernels",
    "busy": "Busy",
    "unused": "GPUs not used",
    "too_large": "GPU too large",
}
"""As the dashboards call the states, and two findings of the report."""


def title(state: str) -> str:
    return TITLES.get(state, state)


def percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.0f} %"


def hours(amount: float) -> str:
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
    """GPUs held: whole numbers mostly, parts where GPUs are shared."""
    return f"{number:.0f}" if abs(number - round(number)) < 0.005 else f"{number:.2f}"  # noqa: PLR2004 - half the last digit


def money(amount: float, currency: str) -> str:
    return f"{amount:,.2f} {currency}"
