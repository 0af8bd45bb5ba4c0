"""Prices of the site, one file: a GPU hour by exact model, MIG profile, cluster and pool, and when. Billed months."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

from exporter import REPOSITORY
from exporter.accounting.model import HOUR_SECONDS
from exporter.config.kinds import near_miss
from exporter.config.option import ConfigError
from exporter.core import site_file

_RUNBOOK = f"{REPOSITORY}/blob/main/docs/how-to/account-teams.md#when-gputeambudget-fires"
KINDS = {
    "record": "profile:gpu_info:group",
    "expr": "group by (cluster, model, profile, pool)"
    " (last_over_time(cluster_state:gpu_owner_gpu_seconds:increase[35d]) or gpu_owner_since_timestamp_seconds)"
    " or group by (cluster, model) (gpu_info)",
}
"""Rule that records 1 for each cluster, model, MIG profile and pool of the last 35 days, which prices select."""
SITE_TEAM = "team:gpu_site_team:group"
"""Recorded, with 1 for each account and namespace that the site maps to a team."""
_FILE_KEYS = {
    *("currency", "electricity_per_kwh", "grams_co2_per_kwh", "prices", "budgets", "budget_thresholds", "teams"),
}
_KEYS = {"model", "profile", "cluster", "pool", "per_gpu_hour", "from", "to"}


@dataclass(frozen=True, slots=True)
class Month:
    """A calendar month in local time, Unix seconds."""

    name: str
    begin: float
    end: float

    @property
    def days(self) -> int:
        return round((self.end - self.begin) / 86400)


def month(value: str) -> Month:
    """Read `2026-10`. Raises ValueError."""
    try:
        begin = datetime.strptime(value, "%Y-%m")  # noqa: DTZ007 - the site's own time
        end = begin.replace(year=begin.year + begin.month // 12, month=begin.month % 12 + 1)
        return Month(value, begin.timestamp(), end.timestamp())
    except (ValueError, OverflowError):
        raise ValueError("a month such as 2026-10") from None


def month_at(time: float) -> Month:
    """Return the month of a Unix time."""
    return month(datetime.fromtimestamp(time).strftime("%Y-%m"))  # noqa: DTZ006 - the site's own time


def forecast(cost: float, hours: int, now: float, begin: float, end: float) -> float:
    """Continue a cost to the end of the month. `hours` are those that have data."""
    rest = max(0.0, end - max(now, begin)) / HOUR_SECONDS
    return cost * (hours + rest) / hours if hours else cost


@dataclass(frozen=True, slots=True)
class PriceRow:
    """Price of one hour of a whole GPU; of an instance its fraction. An empty field fits all."""

    model: str
    per_gpu_hour: float
    profile: str = ""
    pool: str = ""
    cluster: str = ""
    begin: float = 0.0
    end: float = float("inf")

    def fits(self, cluster: str, model: str, profile: str, pool: str, at: float) -> bool:
        """Return whether it is the price of such a GPU at that moment."""
        return (
            self.cluster in {"", cluster}
            and self.model in {"", model}
            and self.profile in {"", profile}
            and self.pool in {"", pool}
            and self.begin <= at < self.end
        )


@dataclass(frozen=True, slots=True)
class Prices:
    """The first row that fits counts."""

    currency: str
    rows: tuple[PriceRow, ...]
    electricity_per_kwh: float = 0.0
    grams_co2_per_kwh: float = 0.0
    budgets: Mapping[str, float] = field(default_factory=dict[str, float])
    """Budget of a month by team."""
    teams: Mapping[str, str] = field(default_factory=dict[str, str])
    """Team of the site by account or namespace; another one is a team of its own."""
    thresholds: tuple[float, ...] = (0.8, 1.0)
    """Fractions of a budget from which on an alert fires."""

    @property
    def changes(self) -> Sequence[float]:
        """Unix seconds at which a price begins or ends."""
        return sorted({at for row in self.rows for at in (row.begin, row.end) if 0 < at < float("inf")})

    def site_team(self, name: str) -> str:
        """Return the team of an account or namespace."""
        return self.teams.get(name, name)

    def per_gpu_hour(self, model: str, profile: str, pool: str, at: float, cluster: str = "") -> float | None:
        """Return the price; None if no row fits: what has no price is not free."""
        return next((row.per_gpu_hour for row in self.rows if row.fits(cluster, model, profile, pool, at)), None)


def promql(prices: Prices) -> str:
    """Return PromQL for the price of a GPU hour now by cluster, model, MIG profile and pool."""
    arms = " or ".join(map(_arm, prices.rows))
    return f"max by (cluster, model, profile, pool) ({arms or 'vector(0) > 0'})"


def _arm(row: PriceRow) -> str:
    named = {"cluster": row.cluster, "model": row.model, "profile": row.profile, "pool": row.pool}
    matchers = [f"{name}={json.dumps(value)}" for name, value in named.items() if value]
    value = f"0 * {KINDS['record']}{{{', '.join(matchers)}}} + {row.per_gpu_hour:.15g}"
    if row.begin:
        value += f" and on () vector(time()) >= {row.begin:.0f}"
    if row.end < float("inf"):
        value += f" and on () vector(time()) < {row.end:.0f}"
    return value


def rules(prices: Prices) -> str:
    """Return the rule file (YAML, of which JSON is a part) that records the prices for dashboards and digests."""
    rule = {"record": "gpu:price_per_hour", "expr": promql(prices), "labels": {"currency": prices.currency}}
    teams = [
        {"record": SITE_TEAM, "expr": "vector(1)", "labels": {"team": owner, "site_team": team}}
        for owner, team in sorted(prices.teams.items())
    ]
    alerts = [_alert(each) for each in prices.thresholds] if prices.budgets else []
    group = {"name": "gpu-prices", "interval": "4m", "rules": [KINDS, rule, *teams, *alerts]}
    return json.dumps({"groups": [group]}, indent=2) + "\n"


def _alert(threshold: float) -> Mapping[str, object]:
    spent = "max without (instance, pod) (gpu_accounting_month_cost / (gpu_accounting_month_budget > 0))"
    return {
        "alert": "GpuTeamBudget",
        "expr": f"{spent} >= {threshold:g}",
        "labels": {"severity": "info", "audience": "owner", "threshold": f"{threshold:.0%}"},
        "annotations": {
            "summary": "{{ $labels.team }} has spent {{ $value | humanizePercentage | reReplaceAll `([.].*)?%` ` %` }} "
            "of its GPU budget of the month",
            "description": "See its jobs: `gpu-exporter report --month YYYY-MM --team {{ $labels.team }} --by job`.",
            "runbook_url": _RUNBOOK,
        },
    }


def read(path: Path) -> Prices:
    """Raises ConfigError."""
    try:
        content = _keyed(site_file.load_yaml(path), _FILE_KEYS)
        rows = tuple(_row(each) for each in _kind(content["prices"], list, "a list of prices"))
        numbers = {name: _amount(content.get(name, 0)) for name in ("electricity_per_kwh", "grams_co2_per_kwh")}
        budgets = {_name(team): _amount(value) for team, value in _keyed(content.get("budgets")).items()}
        teams = _teams(_keyed(content.get("teams")), budgets)
        thresholds = _kind(content.get("budget_thresholds", [0.8, 1.0]), list, "a list of fractions")
        _refuse_unused(rows)
        return Prices(
            _matched(content.get("currency", "USD"), "[A-Z]{3}", "a currency such as EUR"),
            rows,
            **numbers,
            budgets=budgets,
            teams=teams,
            thresholds=tuple(map(_amount, thresholds)),
        )
    except KeyError as error:
        raise ConfigError(f"--prices.file {path}: expected {error}") from None
    except ValueError as error:
        raise ConfigError(f"--prices.file {path}: {error}") from None


def _teams(listed: Mapping[Any, Any], budgets: Mapping[str, float]) -> Mapping[str, str]:
    """Return the team by owner. Each owner is of one, and has no budget of its own if that is another."""
    found: dict[str, str] = {}
    for team, owners in [(_name(team), owners) for team, owners in listed.items()]:
        for owner in map(_name, _kind(owners, list, "a list of owners")):
            if found.setdefault(owner, team) != team:
                raise ValueError(f"{owner} is of team {found[owner]} and of team {team}")
            if owner in budgets.keys() - {team}:
                raise ValueError(f"the budget of {owner} has no time: it is of team {team}")
    return found


def _row(value: object) -> PriceRow:
    entry = _keyed(value, _KEYS)
    names = {name: _name(entry.get(name) or "") for name in _KEYS - {"per_gpu_hour", "from", "to"}}
    _matched(names["profile"], r"((\d+c\.)?\d+g\.\d+gb\S*)?", "a MIG profile such as 1g.10gb")
    begin, end = _moment(entry.get("from"), 0.0), _moment(entry.get("to"), float("inf"))
    if begin >= end:
        raise ValueError(f"from {entry['from']} is not before to {entry['to']}")
    return PriceRow(per_gpu_hour=_amount(entry["per_gpu_hour"]), begin=begin, end=end, **names)


def _refuse_unused(rows: Sequence[PriceRow]) -> None:
    """Raise ValueError for a row that never counts, or that is one of two for the same GPUs and days."""
    for number, row in enumerate(rows):
        fits = [(each.model, each.profile, each.pool, each.cluster) for each in (row, *rows[:number])]
        for place, (earlier, names) in enumerate(zip(rows[:number], fits[1:], strict=True), 1):
            covers = earlier.begin <= row.begin and row.end <= earlier.end
            overlaps = names == fits[0] and earlier.begin < row.end and row.begin < earlier.end
            if overlaps or (covers and all(map(_covers, names, fits[0]))):
                raise ValueError(f"price {number + 1} has GPUs and days of price {place}")


def _covers(name: str, other: str) -> bool:
    return name in {"", other}


def _kind(value: Any, kind: type, expected: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"expected {expected}, got {value!r}")  # noqa: TRY004 - of the file
    return value


def _keyed(value: object, keys: set[str] | None = None) -> Mapping[str, Any]:
    """Return a mapping of the file. `keys` are those that it may have; without them it may be absent."""
    entry: Mapping[str, Any] = {} if value is None and keys is None else _kind(value, dict, "keys with values")
    if keys is not None and (unknown := sorted(map(str, entry.keys() - keys))):
        raise ValueError(f"unknown key {unknown[0]}{near_miss(unknown[0], keys)}")
    return entry


def _name(value: object) -> str:
    """YAML makes truth values of some names, such as `no`."""
    return str(value if type(value) is int else _kind(value, str, "a name, in quotes if need be"))


def _matched(value: object, pattern: str, expected: str) -> str:
    if not re.fullmatch(pattern, str(value)):
        raise ValueError(f"expected {expected}, got {value}")
    return str(value)


def _amount(value: object) -> float:
    try:
        amount = float(str(value))
    except ValueError:
        amount = -1.0
    if not 0 <= amount < float("inf"):
        raise ValueError(f"expected an amount of 0 or more, got {value}")
    return amount


def _moment(value: object, otherwise: float) -> float:
    """Return the begin of a day in UTC."""
    if value is None:
        return otherwise
    text = str(value)  # of a moment within a day it is no day
    _matched(text, r"\d{4}-\d\d-\d\d", "a day such as 2026-10-16")
    day = date.fromisoformat(text)
    return datetime(day.year, day.month, day.day, tzinfo=timezone.utc).timestamp()
