"""`gpu-exporter report --month`: what each team got in a month and what it cost, beside the month before."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone

from exporter.core.printable import printable_json
from exporter.tools.report import words
from exporter.tools.report.accounting.database import Charge, Database
from exporter.tools.report.accounting.prices import Month, Prices, forecast, month_at
from exporter.tools.report.advice import of_states as advise
from exporter.tools.report.definitions import LOST, POSSIBLY_LOST
from exporter.tools.report.document import Document, Facts, Heading, Table
from exporter.tools.report.layout import steps

_NAMED_NODES = 5
"""Nodes without data that a total names."""


@dataclass(frozen=True, slots=True)
class Row:
    """One group. Its fields are the columns of CSV and JSON."""

    name: str
    rank: int | None
    """Rank by cost, then GPU hours, among all of its kind; None for GPU time without an owner."""
    gpu_hours: float
    used_hours: float
    wasted_hours: float
    unobserved_hours: float
    kwh: float
    allocations: int
    cost: float
    unpriced_hours: float
    electricity_cost: float
    kg_co2: float
    gpu_hours_before: float
    cost_before: float
    """Cost of the month before."""
    wasted_cost: float
    possibly_wasted_hours: float
    """Hours of idle services and notebooks, and those without a certain cause."""
    possibly_wasted_cost: float
    forecast_cost: float
    """Cost at the end of the month, at its mean so far."""
    budget: float | None
    """Budget of a team for the month; None without one."""
    hours_by_state: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Showback:
    """Rows of one month."""

    month: str
    by: str
    days: int
    days_with_data: float
    days_with_data_before: float
    days_missing: Mapping[str, float]
    """Days by node in which it observed nothing, since its first row."""
    currency: str
    rows: Sequence[Row]

    @property
    def coverage(self) -> str:
        missing = [f"{node} {days:.1f}" for node, days in list(self.days_missing.items())[:_NAMED_NODES]]
        more = len(self.days_missing) - len(missing)
        return (
            f"data for {self.days_with_data:.1f} of {self.days} days;"
            f" {self.days_with_data_before:.1f} days of the month before"
            + (f"; days missing: {', '.join(missing)}" if missing else "")
            + (f" and {more} more nodes" if more else "")
        )


def showback(database: Database, of: Month, by: str, team: str, prices: Prices, now: float) -> Showback:
    """Return all groups, or those of one team. A team has its rank among all teams."""
    before = month_at(of.begin - 86400)
    scope = "" if by == "team" else team
    rows = _group_rows(database, of, by, scope, prices)
    earlier = {row.name: row for row in _group_rows(database, before, by, scope, prices)}
    ranked = [
        replace(row, gpu_hours_before=earlier[row.name].gpu_hours, cost_before=earlier[row.name].cost)
        if row.name in earlier
        else row
        for row in _rank_rows(rows)
        if by != "team" or team in ("", row.name)
    ]
    hours = database.hours_covered(of.begin, of.end)
    ranked = [
        replace(
            row,
            forecast_cost=round(forecast(row.cost, hours, now, of.begin, of.end), 3),
            budget=prices.budgets.get(row.name) if by == "team" else None,
        )
        for row in ranked
    ]
    missing = {node: round(hours / 24, 2) for node, hours in database.hours_missing(of.begin, of.end).items()}
    covered, covered_before = (round(database.hours_covered(each.begin, each.end) / 24, 2) for each in (of, before))
    return Showback(of.name, by, of.days, covered, covered_before, missing, prices.currency, ranked)


def _rank_rows(rows: Sequence[Row]) -> Sequence[Row]:
    ordered = sorted(rows, key=lambda row: (not row.name, -row.cost, -row.gpu_hours, row.name))
    return [replace(row, rank=place if row.name else None) for place, row in enumerate(ordered, 1)]


def _group_rows(database: Database, of: Month, by: str, team: str, prices: Prices) -> Sequence[Row]:
    charges: dict[str, list[Charge]] = {}
    for charge in database.charges(by, of.begin, of.end, prices, team):
        charges.setdefault(charge.name, []).append(charge)
    return [_charged_row(name, each, prices) for name, each in charges.items()]


def _charged_row(name: str, charges: Sequence[Charge], prices: Prices) -> Row:
    total = Counter[str]()
    for charge in charges:
        total.update(charge.states)
    hours = {state: round(seconds / 3600, 3) for state, seconds in total.items() if seconds}
    kwh = sum(charge.joules for charge in charges) / 3.6e6
    wasted, possibly = (sum(total.get(state, 0.0) for state in states) for states in (LOST, POSSIBLY_LOST))
    cost, wasted_cost, possible = (
        round(sum(charge.cost(states) for charge in charges), 3) for states in (total, LOST, POSSIBLY_LOST)
    )
    return Row(
        name=name,
        rank=None,
        gpu_hours=round(sum(total.values()) / 3600, 3),
        used_hours=round(sum(charge.used for charge in charges) / 3600, 3),
        wasted_hours=round(wasted / 3600, 3),
        unobserved_hours=hours.get("unobserved", 0.0),
        kwh=round(kwh, 3),
        allocations=sum(charge.allocations for charge in charges),
        cost=cost,
        unpriced_hours=round(sum(charge.hours for charge in charges if charge.price is None), 3),
        electricity_cost=round(kwh * prices.electricity_per_kwh, 3),
        kg_co2=round(kwh * prices.grams_co2_per_kwh / 1000, 3),
        gpu_hours_before=0.0,
        cost_before=0.0,
        wasted_cost=wasted_cost,
        possibly_wasted_hours=round(possibly / 3600, 3),
        possibly_wasted_cost=possible,
        forecast_cost=0.0,
        budget=None,
        hours_by_state=hours,
    )


def to_json(found: Showback) -> str:
    return printable_json(asdict(found), 2) + "\n"


def to_csv(found: Showback) -> str:
    """A row for each group; the states are in the JSON only."""
    rows = [{key: value for key, value in asdict(row).items() if key != "hours_by_state"} for row in found.rows]
    return csv_text(rows, tuple(rows[0]))


def csv_text(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> str:
    """A name that a spreadsheet would take for a formula has a quote before it."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _csv_cell(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _csv_cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"} else value


def document(found: Showback) -> Document:
    head = (
        *(">Rank", found.by.capitalize(), ">GPU hours", ">Used", ">Wasted", ">Cost of waste", "Mostly"),
        *(">Possibly wasted", ">Cost of it", ">Unobserved", ">Energy", ">Cost", ">Without a price"),
        *(">GPU hours before", ">Cost before", ">Trend", ">Forecast", ">Of the budget"),
    )
    rows = [_row_cells(row, found.currency) for row in found.rows]
    total = words.money(sum(row.cost for row in found.rows), found.currency)
    unpriced = sum(row.unpriced_hours for row in found.rows)
    total += f"; {words.hours(unpriced)} have no price" if unpriced else ""
    facts = Facts((("Covers", found.coverage), ("Cost of these rows", total)))
    hours = Counter[str]()
    for row in found.rows:
        hours.update(row.hours_by_state if row.name else {})
    advice = steps(advise(hours), known=bool(hours))
    blocks = (facts, Table(head, rows), Heading("What to change"), advice)
    return Document(f"GPU hours and cost by {found.by}, {found.month}", blocks)


def _row_cells(row: Row, currency: str) -> Sequence[str]:
    lost = {state: hours for state, hours in row.hours_by_state.items() if state in LOST}
    trend = words.percent(row.gpu_hours / row.gpu_hours_before - 1) if row.gpu_hours_before else "-"
    return (
        *(f"{row.rank or '-'}", row.name or "(no owner)", words.hours(row.gpu_hours), words.hours(row.used_hours)),
        *(words.hours(row.wasted_hours), words.money(row.wasted_cost, currency)),
        *(words.title(max(lost, key=lost.__getitem__)) if lost else "-", words.hours(row.possibly_wasted_hours)),
        *(words.money(row.possibly_wasted_cost, currency), words.hours(row.unobserved_hours)),
        *(words.energy(row.kwh * 3.6e6), words.money(row.cost, currency)),
        *(words.hours(row.unpriced_hours), words.hours(row.gpu_hours_before)),
        *(words.money(row.cost_before, currency), trend, words.money(row.forecast_cost, currency)),
        words.percent(row.cost / row.budget) if row.budget else "-",
    )


_UNIT_PRICES = tuple(f"{unit}{name}UnitPrice" for unit in ("", "PricingCurrency") for name in ("Contracted", "List"))
_FOCUS = {
    "BillingAccountId": "gpu-exporter", "BillingAccountName": "GPU fleet", "BillingAccountType": "Site",
    "ChargeCategory": "Usage", "ChargeClass": "", "ChargeFrequency": "Usage-Based", "CommitmentDiscountStatus": "",
    "ConsumedUnit": "Hours",
    "InvoiceIssuerName": "GPU fleet", "PricingCategory": "Standard", "PricingUnit": "Hours",
    "ProviderName": "GPU fleet",
    "PublisherName": "GPU fleet", "ServiceCategory": "Compute", "ServiceName": "GPU",
    "ServiceSubcategory": "Other (Compute)",
}  # fmt: skip


def to_focus(charges: Sequence[Charge], of: Month, currency: str) -> str:
    """Return CSV with the columns of FOCUS 1.2 (https://focus.finops.org), for FinOps tools.

    GPU hours without a price are not in it.
    """
    columns = _focus_row(Charge("", "", 0.0, {}, 0.0, 0.0, 0), 0.0, of, currency)
    return csv_text(_focus_rows(charges, of, currency), tuple(columns))


_OPENCOST = {
    "accountName": "BillingAccountName", "chargeCategory": "ChargeCategory", "description": "ChargeDescription",
    "resourceName": "ResourceName", "resourceType": "ResourceType", "providerId": "ResourceId",
    "usageUnit": "ConsumedUnit",
}  # fmt: skip
_OPENCOST_NUMBERS = {
    "billedCost": "BilledCost", "listCost": "ListCost", "listUnitPrice": "ListUnitPrice",
    "usageQuantity": "ConsumedQuantity",
}  # fmt: skip


def to_opencost(charges: Sequence[Charge], of: Month, currency: str) -> str:
    """Return the CustomCostResponse of an OpenCost plugin (opencost/protos/customcost) as JSON of protobuf."""
    costs = [
        {
            **{ours: row[theirs] for ours, theirs in _OPENCOST.items()},
            **{ours: float(str(row[theirs])) for ours, theirs in _OPENCOST_NUMBERS.items()},
            "id": f"{of.name}/{row['SubAccountId']}/{row['SkuPriceId']}",
            "labels": {"team": row["SubAccountName"]},
        }
        for row in _focus_rows(charges, of, currency)
    ]
    response = {
        "costSource": "gpu", "domain": "gpu-exporter", "version": "v1", "currency": currency,
        "start": _time_text(of.begin), "end": _time_text(of.end), "costs": costs,
    }  # fmt: skip
    return printable_json(response, 2) + "\n"


def _focus_rows(charges: Sequence[Charge], of: Month, currency: str) -> Sequence[Mapping[str, object]]:
    return [_focus_row(charge, charge.price, of, currency) for charge in charges if charge.price is not None]


def _focus_row(charge: Charge, price: float, of: Month, currency: str) -> Mapping[str, object]:
    begin, end = _time_text(of.begin), _time_text(of.end)
    cost, name = f"{charge.hours * price:.6f}", charge.name or "(no owner)"
    costs = ("BilledCost", "ContractedCost", "EffectiveCost", "ListCost")
    return dict(
        sorted(
            {
                **_FOCUS, **dict.fromkeys(costs, cost), "BillingCurrency": currency, "PricingCurrency": currency,
                "BillingPeriodStart": begin, "BillingPeriodEnd": end, "ChargePeriodStart": begin,
                "ChargePeriodEnd": end,
                "InvoiceId": of.name, "ChargeDescription": f"GPU hours of {name} on {charge.model}",
                **dict.fromkeys(("ConsumedQuantity", "PricingQuantity"), f"{charge.hours:.6f}"),
                **dict.fromkeys(_UNIT_PRICES, f"{price:.6f}"),
                "PricingCurrencyEffectiveCost": cost, "SkuPriceDetails": json.dumps({"x_GpuModel": charge.model}),
                **dict.fromkeys(("ResourceId", "ResourceName"), charge.model), "ResourceType": "GPU",
                "SkuId": charge.model, "SkuPriceId": f"{charge.model} at {price:g}", "SkuMeter": "GPU hours",
                "SubAccountId": name, "SubAccountName": name, "SubAccountType": "Team",
            }.items()
        )
    )  # fmt: skip


def _time_text(at: float) -> str:
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
