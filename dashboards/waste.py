"""Waste: where the GPU hours go, what they cost, and with whom to talk first."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import units

from dashboards.parts import link, look, panel, price, states, uid
from dashboards.parts.frame import dashboard
from dashboards.parts.query import CLUSTER, GPU_HOURS, RULE_SECONDS, hours, now, over_time
from dashboards.parts.table import Key, Table, Value, advice, gauge, lost_state

LEDGER = f"cluster_state:gpu_time_seconds:rate5m{{{CLUSTER}"
OWNED = f"workload_state:gpu_workload_gpu_seconds:rate5m{{{CLUSTER}"


def waste() -> build.Dashboard:
    made = dashboard(
        "Waste",
        uid.WASTE,
        "Where the GPU hours go: by state, team, user and model; what they cost; with whom to talk first.",
        price.variables(),
        scope=CLUSTER,
        span="now-24h",
    )
    made.with_row(build.Row("In the time range"))
    _numbers(made)
    made.with_row(build.Row("Where the hours go"))
    _states(made)
    made.with_row(build.Row("With whom to talk first"))
    made.with_panel(_workloads())
    made.with_row(build.Row("By team, user and model"))
    _levels(made)
    return made


def _of(state: str) -> str:
    return f"sum({hours(f'{LEDGER}, state=~{chr(34)}{state}{chr(34)}}}')})"


def _numbers(made: build.Dashboard) -> None:
    everything, lost = f"sum({hours(LEDGER + '}')})", _of(states.LOST_REGEX)
    held = _of(states.HELD_REGEX)
    made.with_panel(
        panel.number(
            "GPU hours", "All there were: GPUs times hours.", now(everything), GPU_HOURS, size=(3, 4), decimals=1
        )
    )
    made.with_panel(
        panel.number(
            "Held", "Hours that somebody held a GPU, used or not.", now(held), GPU_HOURS, size=(3, 4), decimals=1
        )
    )
    made.with_panel(
        panel.number(
            "Wasted",
            "Held, and idle, waiting or throttled.",
            now(lost),
            GPU_HOURS,
            steps=look.SOME_IS_WORTH_A_LOOK,
            size=(4, 4),
            decimals=1,
        )
    )
    made.with_panel(
        panel.number(
            "Wasted of held",
            "The share of the held hours that was wasted.",
            now(f"{lost} / ({held} > 0)"),
            units.PercentUnit,
            steps=look.LOSS,
            size=(3, 4),
            decimals=0,
        )
    )
    made.with_panel(
        panel.number(
            "Price of what was held",
            "At the prices set above, for the GPUs that workloads held.",
            now(f"sum({price.held(CLUSTER)})"),
            units.Dollars,
            size=(4, 4),
            decimals=0,
            empty="nobody held a whole GPU",
        )
    )
    made.with_panel(
        panel.number(
            "Price of the waste",
            "The part of it that was held and idle, waiting or throttled.",
            now(f"sum({price.lost(CLUSTER)})"),
            units.Dollars,
            steps=look.SOME_IS_WORTH_A_LOOK,
            size=(4, 4),
            decimals=0,
            empty="nobody held a whole GPU",
        )
    )
    made.with_panel(
        panel.number(
            "Free",
            "Hours that nobody held a GPU: capacity the scheduler could give. Not in the loss.",
            now(_of("free")),
            GPU_HOURS,
            size=(3, 4),
            decimals=1,
        )
    )


def _states(made: build.Dashboard) -> None:
    made.with_panel(
        panel.state_bars(
            "GPU hours by state",
            "Every GPU hour of the range is in exactly one bar, the longest first.",
            now(f"sort_desc(sum by (state) ({hours(LEDGER + '}')}) > 0)"),
            GPU_HOURS,
            size=(9, 11),
        )
    )
    made.with_panel(
        panel.ledger(
            "GPUs by state",
            "The same over time: GPUs' worth in each state.",
            over_time(f"sum by (state) ({LEDGER}}})"),
            size=(15, 11),
        )
    )
    lost = f'{OWNED}, state=~"{states.LOST_REGEX}"}}'
    made.with_panel(
        Table(
            title="Causes, and what to do",
            description="The wasted hours by cause, the largest first, the number of workloads each struck, and what helps.",
            keys=(Key("state", "Cause", width=180, mappings=tuple(states.by_name())),),
            columns=(
                Value("GPU hours wasted", f"{hours(lost)} > 0", GPU_HOURS, decimals=1, width=165, reduce="sum"),
                gauge(
                    "Share of the waste",
                    f"sum by (state) (sum_over_time({lost}[$__range])) / on () group_left () (sum(sum_over_time({lost}[$__range])) > 0) > 0",
                    look.PLAIN,
                    width=160,
                ),
                Value(
                    "Workloads",
                    f"count by (state) (sum by (workload, state) (sum_over_time({lost}[$__range])) * {RULE_SECONDS} > 60)",
                    "short",
                    decimals=0,
                    width=95,
                ),
                advice("What to do", f"{hours(lost)} > 0"),
            ),
            sort="GPU hours wasted",
            size=(24, 8),
            empty="Nothing was wasted in the time range",
        ).build()
    )


def _workloads() -> table.Panel:
    name = link.cell("Workload")
    lost = f'sum_over_time({OWNED}, state=~"{states.LOST_REGEX}"}}[$__range]) > 0'
    total = f"sum_over_time({OWNED}}}[$__range])"
    by = "cluster, workload, kind, user, namespace, account"
    busy = f'sum by ({by}) (sum_over_time({OWNED}, state=~"{states.BUSY_REGEX}"}}[$__range])) / (sum by ({by}) ({total}) > 0)'
    return Table(
        title="Workloads that wasted most",
        description="The 30 workloads that wasted most GPU hours in the range, ended ones too: whose they are, what they wasted them on, "
        "what it cost, what to do. Click one to see it.",
        keys=(
            Key("workload", "Workload", (link.to_pod(name), link.to_job(name)), width=230),
            Key("user", "User", (link.to_user(link.cell("User")),), width=90),
            Key("namespace", "Namespace", (link.to_namespace(link.cell("Namespace")),), width=105),
            Key("account", "Account", (link.to_account(link.cell("Account")),), width=95),
        ),
        columns=(
            Value(
                "Wasted",
                hours(f"workload:gpu_waste:rate5m{{{CLUSTER}}}"),
                GPU_HOURS,
                look.SOME_IS_WORTH_A_LOOK,
                decimals=1,
                width=85,
                reduce="sum",
                wrap="topk(30, {} > 0)",
            ),
            Value("Held", hours(f"{OWNED}}}"), GPU_HOURS, decimals=1, width=85, reduce="sum"),
            Value("Price", price.lost(CLUSTER), units.Dollars, decimals=2, width=100, reduce="sum"),
            gauge("Utilization", busy, look.GOOD_IS_HIGH, width=120),
            lost_state("Wasted on", lost, 160),
            advice("What to do", lost),
        ),
        sort="Wasted",
        size=(24, 12),
        empty="No workload held a GPU in the time range",
    ).build()


def _levels(made: build.Dashboard) -> None:
    for level, title, onward in (
        ("namespace", "Namespaces", link.to_namespace(link.cell("Namespace"))),
        ("account", "Slurm accounts", link.to_account(link.cell("Account"))),
        ("user", "Users", link.to_user(link.cell("User"))),
    ):
        made.with_panel(_level(level, title, onward))
    made.with_panel(_models())


def _level(level: str, title: str, onward: link.Link) -> table.Panel:
    ledger = f"{level}_state:gpu_workload_gpu_seconds:rate5m{{{CLUSTER}"
    mine = f'{CLUSTER}, {level}!=""'
    lost = f'sum_over_time({ledger}, state=~"{states.LOST_REGEX}"}}[$__range]) > 0'
    busy = f'sum by ({level}) (sum_over_time({ledger}, state=~"{states.BUSY_REGEX}"}}[$__range])) / (sum by ({level}) (sum_over_time({ledger}}}[$__range])) > 0)'
    return Table(
        title=title,
        description=f"GPU hours by {level}: held, wasted, what that cost, and on which state most of it went. Click one for its workloads.",
        keys=(Key(level, level.capitalize(), (onward,)),),
        columns=(
            Value("Held", hours(f"{ledger}}}"), GPU_HOURS, decimals=1, width=85, reduce="sum"),
            gauge("Utilization", busy, look.GOOD_IS_HIGH, width=130),
            Value(
                "Wasted",
                hours(f"{level}:gpu_waste:rate5m{{{CLUSTER}}}"),
                GPU_HOURS,
                look.SOME_IS_WORTH_A_LOOK,
                decimals=1,
                width=85,
                reduce="sum",
            ),
            Value("Price", price.lost(mine), units.Dollars, decimals=2, width=110, reduce="sum"),
            lost_state("Wasted on", lost, 165),
        ),
        sort="Wasted",
        size=(12, 9),
        empty=f"No {level} held a GPU in the time range",
    ).build()


def _models() -> table.Panel:
    ledger = f"model_state:gpu_time_seconds:rate5m{{{CLUSTER}"
    lost = f'sum_over_time({ledger}, state=~"{states.LOST_REGEX}"}}[$__range]) > 0'
    free = f'{ledger}, state="free"}}'
    return Table(
        title="Models",
        description="GPU hours by model: all, free, wasted, and the price of the waste.",
        keys=(Key("model", "Model"),),
        columns=(
            Value("All", hours(f"{ledger}}}"), GPU_HOURS, decimals=1, width=85, reduce="sum"),
            Value("Free", hours(free), GPU_HOURS, decimals=1, width=85, reduce="sum"),
            Value(
                "Wasted",
                hours(f"model:gpu_waste:rate5m{{{CLUSTER}}}"),
                GPU_HOURS,
                look.SOME_IS_WORTH_A_LOOK,
                decimals=1,
                width=85,
                reduce="sum",
            ),
            Value(
                "Price",
                price.priced(lambda model: hours(f"model:gpu_waste:rate5m{{{CLUSTER}{model}}}")),
                units.Dollars,
                decimals=2,
                width=110,
                reduce="sum",
            ),
            lost_state("Wasted on", lost, 165),
        ),
        sort="Wasted",
        size=(12, 9),
        empty="No GPU was known in the time range",
    ).build()
