"""A month as charges with the columns of FOCUS 1.2, for FinOps tools (https://focus.finops.org)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

from exporter.tools.report.accounting.database import Charge
from exporter.tools.report.accounting.showback import Month, csv_text

_FIXED = {
    "BillingAccountId": "gpu-exporter", "BillingAccountName": "GPU fleet", "BillingAccountType": "Site",
    "ChargeCategory": "Usage", "ChargeClass": "", "ChargeFrequency": "Usage-Based", "ConsumedUnit": "Hours",
    "InvoiceIssuerName": "GPU fleet", "PricingCategory": "Standard", "PricingUnit": "Hours",
    "ProviderName": "GPU fleet",
    "PublisherName": "GPU fleet", "ServiceCategory": "Compute", "ServiceName": "GPU",
    "ServiceSubcategory": "Other (Compute)",
}  # fmt: skip


def to_focus(charges: Sequence[Charge], of: Month, currency: str) -> str:
    """Return CSV. GPU hours without a price are not in it."""
    return csv_text([_row(charge, charge.price, of, currency) for charge in charges if charge.price is not None])


def _row(charge: Charge, price: float, of: Month, currency: str) -> Mapping[str, object]:
    begin, end = _moment(of.begin), _moment(of.end)
    cost, name = f"{charge.hours * price:.6f}", charge.name or "(no owner)"
    costs = ("BilledCost", "ContractedCost", "EffectiveCost", "ListCost")
    return dict(
        sorted(
            {
                **_FIXED, **dict.fromkeys(costs, cost), "BillingCurrency": currency, "PricingCurrency": currency,
                "BillingPeriodStart": begin, "BillingPeriodEnd": end, "ChargePeriodStart": begin,
                "ChargePeriodEnd": end,
                "ChargeDescription": f"GPU hours of {name} on {charge.model}",
                **dict.fromkeys(("ConsumedQuantity", "PricingQuantity"), f"{charge.hours:.6f}"),
                **dict.fromkeys(("ContractedUnitPrice", "ListUnitPrice"), f"{price:.6f}"),
                **dict.fromkeys(("ResourceId", "ResourceName"), charge.model), "ResourceType": "GPU",
                "SkuId": charge.model, "SkuPriceId": f"{charge.model} at {price:g}", "SkuMeter": "GPU hours",
                "SubAccountId": name, "SubAccountName": name, "SubAccountType": "Team",
            }.items()
        )
    )  # fmt: skip


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
