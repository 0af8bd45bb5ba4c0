"""Waste: where the GPU hours go, what they cost, and with whom to talk first."""

from __future__ import annotations

from grafana_foundation_sdk.builders import bargauge, table
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import units

from dashboards.parts import link, mfu, panel, price, style, uid, variable
from dashboards.parts.frame import dashboard
from dashboards.parts.query import CLUSTER, GPU_HOURS, RANGE, devices, now, over_time, some
from dashboards.parts.table import Key, Table, Value, cause, gauge, lost_state, step, target_ratio
from exporter.tools.report import promql
from exporter.tools.report.definitions import LOST, POSSIBLY_LOST, WASTED, among, identity

SHOWN = 'cluster=~"$cluster", workload=~"$shown"'
FLEET = promql.ledger("cluster", CLUSTER, RANGE, "")
OWNED = promql.ledger(promql.TEAM, promql.owned(promql.TEAM, CLUSTER), RANGE, "")
"""Allocated GPU hours: all work is of some team."""


def waste() -> build.Dashboard:
    made = dashboard(
        "Waste",
        uid.WASTE,
        "Where the GPU hours go: by state, team, user and model; what they cost; with whom to talk first.",
        (variable.shown_of_month(CLUSTER, 30),),
        scope=CLUSTER,
        span="now-24h",
        refresh="15m",
    )
    made.with_row(build.Row("In the time range"))
    _numbers(made)
    made.with_row(build.Row("Top wasters by owner"))
    made.with_panel(_causes())
    made.with_panel(_bars())
    made.with_panel(_workloads())
    made.with_row(build.Row("Where the hours go"))
    made.with_panel(
        panel.ledger(
            "GPUs by state",
            "GPUs' worth of time in each state.",
            over_time(some(devices("cluster", CLUSTER, "state", identity).of())),
            size=(20, 10),
        )
    )
    made.with_panel(panel.covered((4, 10)))
    made.with_row(build.Row("By team, user and model"))
    for level, title, onward in (
        ("namespace", "Namespaces", link.to_namespace(link.cell("Namespace"))),
        ("account", "Slurm accounts", link.to_account(link.cell("Account"))),
        ("user", "Users", link.to_user(link.cell("User"))),
    ):
        made.with_panel(_level(level, title, onward))
    made.with_panel(_models())
    return made


def _numbers(made: build.Dashboard) -> None:
    allocated, lost = OWNED.allocated(), WASTED.promql(OWNED)
    made.with_panel(
        panel.number(
            "All", "All GPU hours there were: GPUs times hours.", now(FLEET.of()), GPU_HOURS, size=(2, 4), decimals=0
        )
    )
    made.with_panel(
        panel.number(
            "Allocated",
            "Hours that a GPU was allocated, used or not.",
            now(allocated),
            GPU_HOURS,
            size=(3, 4),
            decimals=0,
        )
    )
    made.with_panel(
        panel.number(
            "Wasted",
            "Allocated and lost: not used, waiting for a known cause, or throttled.",
            now(lost),
            GPU_HOURS,
            steps=style.WASTE,
            size=(2, 4),
            decimals=1,
        )
    )
    made.with_panel(
        panel.number(
            "Possibly wasted",
            "Allocated and possibly lost: waiting for requests, for people or for an unknown cause, or in a kernel that may only spin. Not counted as waste.",
            now(OWNED.or_none(among(POSSIBLY_LOST))),
            GPU_HOURS,
            size=(3, 4),
            decimals=1,
        )
    )
    made.with_panel(
        panel.number(
            "Wasted fraction",
            "The fraction of the allocated hours that was wasted.",
            now(f"({lost}) / ({allocated} > 0)"),
            units.PercentUnit,
            steps=style.LOSS,
            size=(3, 4),
            decimals=0,
        )
    )
    made.with_panel(
        panel.number(
            "Cost of allocated",
            f"For the allocated GPUs and fractions of GPUs. {price.SOURCE}",
            now(price.total(price.of_teams(CLUSTER))),
            style.MONEY,
            mappings=price.MAPPINGS,
            size=(3, 4),
            decimals=0,
            empty="none allocated",
        )
    )
    made.with_panel(
        panel.number(
            "Price by use",
            "What the same hours cost where the time is paid for that kernels ran, whatever fraction of a GPU was allocated.",
            now(price.total(price.of_teams(CLUSTER, "team:gpu_owner_busy_cost"))),
            style.MONEY,
            mappings=price.MAPPINGS,
            size=(3, 4),
            decimals=0,
            empty="no kernel ran",
        )
    )
    made.with_panel(
        panel.number(
            "Price of the waste",
            "The part of it that was wasted.",
            now(price.total(price.in_states(promql.TEAM, CLUSTER, among(LOST), "team"))),
            style.MONEY,
            mappings=price.MAPPINGS,
            steps=style.WASTE,
            size=(3, 4),
            decimals=0,
            empty="none allocated",
        )
    )
    made.with_panel(
        panel.number(
            "Free",
            "Hours that a GPU was not allocated: capacity the scheduler could give. Not in the loss.",
            now(FLEET.or_none('state="free"')),
            GPU_HOURS,
            size=(2, 4),
            decimals=0,
        )
    )


def _bars() -> bargauge.Panel:
    return panel.state_bars(
        "GPU hours by state",
        "Every GPU hour of the range is in exactly one bar, the longest first.",
        now(f"sort_desc({promql.ledger('cluster', CLUSTER, RANGE, 'state').of()} > 0)"),
        GPU_HOURS,
        size=(11, 11),
    )


def _causes() -> table.Panel:
    lost = promql.causes(promql.TEAM, CLUSTER, RANGE)
    struck = promql.ledger(promql.TEAM, OWNED.matchers, RANGE, "team, state").of(among(LOST))
    return Table(
        title="Causes, and what to do",
        description="The wasted hours by cause, the largest first, the number of teams each struck for a minute or more, and what helps first. Click a cause for the whole advice.",
        keys=(cause("Cause"),),
        columns=(
            Value("GPU hours", lost, GPU_HOURS, decimals=1, width=105, reduce="sum"),
            gauge(
                "Of the waste",
                f"({lost}) / on () group_left () (sum({lost}) > 0)",
                style.PLAIN,
                width=100,
                reduce="sum",
            ),
            Value("Teams", f"count by (state) ({struck} * 3600 > 60)", style.COUNT, decimals=0, width=100),
            step("What to do first", lost),
        ),
        sort="GPU hours",
        size=(13, 11),
        empty="Nothing was wasted in the time range",
    ).build()


def _workloads() -> table.Panel:
    name, cluster = link.cell("Workload"), link.cell("Cluster")
    return Table(
        title="Workloads that wasted most",
        description="The 30 workloads that wasted most GPU hours in the range, ended ones too, of the 200 that did so in some hour: their owners, what they wasted them on, "
        "and the price of the waste, and of what is possibly wasted; utilization stands beside the target of their class of work. Click one to see why and what to do.",
        keys=(
            Key("cluster", "Cluster", width=80),
            Key("workload", "Workload", (link.to_pod(name, cluster), link.to_job(name, cluster))),
            Key("user", "User", (link.to_user(link.cell("User")),), width=80),
            Key("workload_namespace", "Namespace", (link.to_namespace(link.cell("Namespace")),), width=105),
            Key("account", "Account", (link.to_account(link.cell("Account")),), width=90),
        ),
        columns=(
            Value(
                "Wasted",
                promql.wasted("workload", SHOWN, RANGE),
                GPU_HOURS,
                style.WASTE,
                decimals=1,
                width=95,
                reduce="sum",
                wrap="{} > 0",
            ),
            Value(
                "Allocated",
                promql.allocated_gpu_hours("workload", SHOWN, RANGE),
                GPU_HOURS,
                decimals=1,
                width=95,
                reduce="sum",
            ),
            _price("workload", 90, SHOWN),
            _possible("workload", SHOWN),
            gauge("Utilization", promql.utilization("workload", SHOWN, RANGE), style.PLAIN, width=105),
            *mfu.columns(SHOWN, promql.keys("workload")),
            target_ratio(promql.target_ratio("workload", SHOWN, RANGE)),
            lost_state("Wasted on", promql.wasted_on("workload", SHOWN, RANGE)),
        ),
        sort="Wasted",
        size=(24, 11),
        empty="No workload had a GPU allocated in the time range",
    ).build()


def _price(level: str, width: int, scope: str = CLUSTER) -> Value:
    priced = price.of_waste(level, scope)
    return Value("Waste cost", priced, style.MONEY, decimals=0, width=width, reduce="sum")


def _possible(level: str, scope: str = CLUSTER) -> Value:
    return Value(
        "Possible cost", price.of_possible_waste(level, scope), style.MONEY, decimals=0, width=110, reduce="sum"
    )


def _level(level: str, title: str, onward: link.Link) -> table.Panel:
    return Table(
        title=title,
        description=f"GPU hours by {level}: allocated, wasted, the price of the waste and of what is possibly wasted (waiting for requests, people or an unknown cause, or a kernel that may only spin), "
        "and on which state most of it went. "
        f"Target ratio: utilization beside what is good for its classes of work. {mfu.MEANING} A dash: nothing of it could be observed, or "
        "reported. Click one for its workloads.",
        keys=(Key(promql.label(level), level.capitalize(), (onward,)),),
        columns=(
            Value(
                "Allocated",
                promql.allocated_gpu_hours(level, CLUSTER, RANGE),
                GPU_HOURS,
                decimals=1,
                width=105,
                reduce="sum",
            ),
            gauge("Utilization", promql.utilization(level, CLUSTER, RANGE), style.PLAIN, width=105),
            *mfu.columns(f'{CLUSTER}, {promql.label(level)}!=""', promql.label(level)),
            target_ratio(promql.target_ratio(level, CLUSTER, RANGE)),
            Value(
                "Wasted",
                promql.wasted(level, CLUSTER, RANGE),
                GPU_HOURS,
                style.WASTE,
                decimals=1,
                width=105,
                reduce="sum",
            ),
            _price(level, 95),
            _possible(level),
            lost_state("Wasted on", promql.wasted_on(level, CLUSTER, RANGE)),
        ),
        sort="Wasted",
        size=(24, 8),
        empty=f"No {level} had a GPU allocated in the time range",
    ).build()


def _models() -> table.Panel:
    by_model = promql.ledger("cluster", CLUSTER, RANGE, "model")
    lost = promql.ledger("cluster", CLUSTER, RANGE, "model, state").of(among(LOST))
    return Table(
        title="Models",
        description="GPU hours by model: all, free, wasted, and what all and the wasted ones cost. Click one for the nodes that have it.",
        keys=(Key("model", "Model", (link.to_model(link.cell("Model")),)),),
        columns=(
            Value("All", by_model.of(), GPU_HOURS, decimals=1, width=105, reduce="sum"),
            Value("Free", by_model.or_none('state="free"'), GPU_HOURS, decimals=1, width=105, reduce="sum"),
            Value(
                "Wasted",
                WASTED.promql(by_model),
                GPU_HOURS,
                style.WASTE,
                decimals=1,
                width=105,
                reduce="sum",
            ),
            *(
                Value(
                    title,
                    price.in_states("cluster", CLUSTER, states, "model"),
                    style.MONEY,
                    decimals=0,
                    width=100,
                    reduce="sum",
                )
                for title, states in (("Cost of all", 'state!=""'), ("Waste cost", among(LOST)))
            ),
            lost_state("Wasted on", f"{lost} > 0"),
        ),
        sort="Wasted",
        size=(24, 8),
        empty="No GPU was known in the time range",
    ).build()
