"""Showback: what each team got, lost and cost, beside its budget and the time before."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import units

from dashboards.parts import link, panel, price, style, uid
from dashboards.parts.frame import dashboard
from dashboards.parts.query import CLUSTER, GPU_HOURS, JOULES_PER_KWH, KWH, RANGE, now
from dashboards.parts.table import Key, Table, Value, cause, lost_state, step
from exporter.tools.report import promql
from exporter.tools.report.definitions import LOST, POSSIBLY_LOST, among, grown_in

_OWNED = promql.owned(promql.TEAM, CLUSTER)
_SERIES = f"team:gpu_owner_gpu_seconds:increase{{{_OWNED}}}"
_ALLOCATED = f"sum by (team) ({grown_in(RANGE)(_SERIES)})"
_BEFORE = f"sum by (team) (sum_over_time({_SERIES}[{RANGE}] offset {RANGE})) / 3600"
_USED = f"sum by (team) ({grown_in(RANGE)(f'team:gpu_owner_busy_gpu_seconds:increase{{{_OWNED}}}')})"
_LEDGER = promql.ledger(promql.TEAM, _OWNED, RANGE, "team")
_POSSIBLE = _LEDGER.of(among(POSSIBLY_LOST))
_ENERGY = (
    f"sum by (team) (sum_over_time(team:gpu_owner_energy_joules:increase{{{_OWNED}}}[{RANGE}])) / {JOULES_PER_KWH}"
)

_IDLE = ("wait_requests", "wait_user")


def showback() -> build.Dashboard:
    made = dashboard(
        "Showback",
        uid.SHOWBACK,
        "What each team got in the time range, what it cost, and its budget of the month.",
        (),
        scope=CLUSTER,
        span="now-30d",
        refresh="15m",
    )
    made.with_panel(
        Table(
            title="Teams",
            description="By team (the Slurm account, else the namespace), the most expensive first. Wasted is certain or "
            f"likely, possibly wasted may be as it should. Before: the same time before the range. {price.SOURCE}",
            keys=(Key("team", "Team", (link.to_waste(),)),),
            columns=(
                Value("Cost", price.of_teams(CLUSTER), style.MONEY, decimals=0, width=90, reduce="sum"),
                Value("Allocated", _ALLOCATED, GPU_HOURS, decimals=1, width=125, reduce="sum"),
                Value("Before", _BEFORE, GPU_HOURS, decimals=1, width=125, reduce="sum"),
                Value(
                    "Used",
                    _USED,
                    GPU_HOURS,
                    decimals=1,
                    width=125,
                    reduce="sum",
                ),
                Value(
                    "Wasted",
                    f"({_LEDGER.of(among(LOST))} or 0 * ({_USED} > 0 or {_POSSIBLE} > 0))",
                    GPU_HOURS,
                    decimals=1,
                    width=110,
                    reduce="sum",
                ),
                Value("Possibly wasted", _POSSIBLE, GPU_HOURS, decimals=1, width=130, reduce="sum"),
                Value(
                    "Possible cost",
                    price.of_possible_waste("team", CLUSTER),
                    style.MONEY,
                    decimals=0,
                    width=110,
                    reduce="sum",
                ),
                lost_state("Wasted on", promql.wasted_on("team", CLUSTER, RANGE)),
                Value("Energy", _ENERGY, KWH, decimals=1, width=100, reduce="sum"),
            ),
            sort="Cost",
            size=(24, 14),
            empty="No team had a GPU allocated in the time range",
        ).build()
    )
    idle = promql.ledger(promql.TEAM, _OWNED, RANGE, "team, state").of(among(_IDLE))
    made.with_panel(
        Table(
            title="Idle services and notebooks",
            description="Time in which services had no request, and interactive sessions ran nothing, by team. It is part of "
            f"Possibly wasted: some of it keeps room for peaks. {price.SOURCE}",
            keys=(Key("team", "Team", (link.to_waste(),)), cause("State")),
            columns=(
                Value("GPU hours", idle, GPU_HOURS, decimals=1, width=110, reduce="sum", wrap="{} > 0"),
                Value(
                    "Cost",
                    price.in_states(promql.TEAM, CLUSTER, among(_IDLE), "team, state"),
                    style.MONEY,
                    decimals=0,
                    width=90,
                    reduce="sum",
                ),
                step("What to do first", idle),
            ),
            sort="GPU hours",
            size=(24, 7),
            empty="No service or notebook was idle in the time range",
        ).build()
    )
    spent = f"gpu_accounting_month_cost{{{CLUSTER}}}", f"gpu_accounting_month_forecast{{{CLUSTER}}}"
    for title, cost, what in (
        ("Budget spent", spent[0], "Cost of this month"),
        ("Budget at the end of the month", spent[1], "Forecast of the cost at the end of this month"),
    ):
        budget = f"max by (team) (gpu_accounting_month_budget{{{CLUSTER}}}) > 0"
        made.with_panel(
            panel.bars(
                title,
                f"{what} as a fraction of the budget of each team that has one.",
                now(f"max by (team) ({cost}) / ({budget})", "{{team}}"),
                units.PercentUnit,
                steps=((None, style.GREEN), (0.8, style.ORANGE), (1, style.RED)),
                size=(10, 8),
                empty="No team has a budget, or the accounting service is not scraped",
            )
        )
    made.with_panel(panel.covered((4, 8)))
    return made
