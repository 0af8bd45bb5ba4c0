"""Fleet: is anything broken, is anything wasted, and where. All from recorded series, so that 1,000 nodes are quick."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import units

from dashboards.parts import block, link, look, panel, uid
from dashboards.parts.frame import dashboard
from dashboards.parts.query import ALERTS, CLUSTER, GPU_HOURS, hours, now, over_time
from dashboards.parts.states import LOST_REGEX
from dashboards.parts.table import Key, Table, Value, gauge, lost_state


def fleet() -> build.Dashboard:
    made = dashboard(
        "Fleet", uid.FLEET, "All GPUs of all clusters: what is broken, what is wasted, and where.", (), scope=CLUSTER
    )
    made.with_row(build.Row("Now"))
    _numbers(made)
    made.with_row(build.Row("What needs attention"))
    made.with_panel(block.firing(CLUSTER, size=(24, 9)))
    _workloads(made)
    made.with_row(build.Row("Where the GPUs' time goes"))
    _ledger(made)
    made.with_row(build.Row("Nodes and models"))
    made.with_panel(_nodes())
    _models(made)
    made.with_row(build.Row("Spread"))
    _spread(made)
    return made


def _numbers(made: build.Dashboard) -> None:
    def total(name: str) -> str:
        return f"sum(cluster:{name}{{{CLUSTER}}})"

    health, waste = (link.to_health(),), (link.to_waste(),)
    answers, known = total("gpu_up:sum"), total("gpu_up:count")
    made.with_panel(panel.number("GPUs", "GPUs that answer the driver.", now(answers), size=(3, 4)))
    made.with_panel(
        panel.number(
            "Do not answer",
            "GPUs the exporters knew once and the driver no longer answers for. Click for Health.",
            now(f"{known} - {answers}"),
            steps=look.SOME_IS_BAD,
            size=(3, 4),
            links=health,
        )
    )
    made.with_panel(
        panel.number(
            "Held",
            "Share of the answering GPUs that a workload holds, whether it uses them or not.",
            over_time(f"{total('gpu_workload_gpus:sum')} / {answers}"),
            units.PercentUnit,
            size=(3, 4),
            decimals=0,
            spark=True,
        )
    )
    made.with_panel(
        panel.number(
            "Utilization",
            "Share of the held GPU time in which a kernel ran. Free GPUs do not count: they are the scheduler's matter.",
            over_time(f"{total('gpu_busy_seconds:rate5m')} / {total('gpu_workload_gpus:sum')}"),
            units.PercentUnit,
            steps=look.GOOD_IS_HIGH,
            size=(3, 4),
            decimals=0,
            spark=True,
        )
    )
    made.with_panel(
        panel.number(
            "GPUs wasted",
            "GPUs' worth of time that somebody holds and that is idle, waiting or throttled. 12 means: as if 12 GPUs were switched off. Click to see whose.",
            over_time(total("gpu_waste:rate5m")),
            steps=look.SOME_IS_WORTH_A_LOOK,
            size=(3, 4),
            decimals=1,
            spark=True,
            links=waste,
        )
    )
    made.with_panel(
        panel.number(
            "Power", "Drawn by all GPUs.", over_time(total("gpu_power_watts:sum")), units.Watt, size=(3, 4), spark=True
        )
    )
    made.with_panel(
        panel.number(
            "Critical",
            "GPU alerts of severity critical that fire now.",
            now(f'count(ALERTS{{{ALERTS}, severity="critical", {CLUSTER}}}) or vector(0)'),
            steps=look.SOME_IS_BAD,
            size=(3, 4),
            links=health,
        )
    )
    made.with_panel(
        panel.number(
            "Warnings",
            "GPU alerts of severity warning that fire now.",
            now(f'count(ALERTS{{{ALERTS}, severity="warning", {CLUSTER}}}) or vector(0)'),
            steps=look.SOME_IS_WORTH_A_LOOK,
            size=(3, 4),
            links=health,
        )
    )


def _workloads(made: build.Dashboard) -> None:
    name = link.cell("Workload")
    made.with_panel(
        block.workloads(
            "Pods that waste most",
            "Pods (and containers and units outside Slurm) that hold GPUs, those that waste most of them first. Click one to see why.",
            f'{CLUSTER}, kind!="slurm"',
            owner_keys=(),
            onward=link.to_pod(name),
            empty="No pod holds a GPU",
        )
    )
    made.with_panel(
        block.workloads(
            "Slurm jobs that waste most",
            "Slurm jobs that hold GPUs, those that waste most of them first. Click one to see why.",
            f'{CLUSTER}, kind="slurm"',
            owner_keys=(
                Key("user", "User", (link.to_user(link.cell("User")),), width=90),
                Key("account", "Account", (link.to_account(link.cell("Account")),), width=90),
            ),
            onward=link.to_job(name),
            empty="No Slurm job holds a GPU",
        )
    )


def _ledger(made: build.Dashboard) -> None:
    series = f"cluster_state:gpu_time_seconds:rate5m{{{CLUSTER}}}"
    made.with_panel(
        panel.ledger(
            "GPUs by state",
            "GPUs' worth of time in each state. The stack is as high as there are GPUs: nothing is left out.",
            over_time(f"sum by (state) ({series})"),
            size=(16, 10),
            links=(link.to_waste(),),
        )
    )
    made.with_panel(
        panel.state_bars(
            "GPU hours by state",
            "The same, summed over the time range.",
            now(f"sort_desc(sum by (state) ({hours(series)}) > 0)"),
            GPU_HOURS,
            size=(8, 10),
            links=(link.to_waste(),),
        )
    )


def _nodes() -> table.Panel:
    node = link.cell("Node")

    def of(name: str) -> str:
        return f"node:{name}{{{CLUSTER}}}"

    lost = f'node_state:gpu_time_seconds:rate5m{{{CLUSTER}, state=~"{LOST_REGEX}"}} > 0.2'
    return Table(
        title="Nodes",
        description="One row per node, those with most alerts first. Click a node to see its GPUs.",
        keys=(Key("cluster", "Cluster", width=110), Key("instance", "Node", (link.to_node(node),), width=170)),
        columns=(
            Value(
                "Alerts",
                f'count by (cluster, instance) (ALERTS{{{ALERTS}, {CLUSTER}, instance!="", severity!="info"}}) or 0 * sum by (cluster, instance) ({of("gpu_up:count")})',
                "short",
                look.SOME_IS_BAD,
                decimals=0,
                width=75,
            ),
            Value("GPUs", of("gpu_up:sum"), "short", decimals=0, width=65),
            Value(
                "Gone", f"{of('gpu_up:count')} - {of('gpu_up:sum')}", "short", look.SOME_IS_BAD, decimals=0, width=65
            ),
            Value("Held", of("gpu_workload_gpus:sum"), "short", decimals=1, width=65),
            gauge("Utilization", of("gpu_utilization:ratio_rate5m"), look.PLAIN),
            gauge("Memory", f"{of('gpu_memory_used_bytes:sum')} / {of('gpu_memory_total_bytes:sum')}", look.FULL),
            Value("Wasted", of("gpu_waste:rate5m"), "short", look.SOME_IS_WORTH_A_LOOK, decimals=1, width=110),
            lost_state("Wasted on", lost),
            gauge("Held down by heat", of("gpu_thermal_throttle:ratio_rate5m"), look.SHARE_OF_TIME),
            Value("Hottest GPU", of("gpu_temperature_celsius:max"), units.Celsius, look.HEAT, decimals=0, width=105),
            Value("Power", of("gpu_power_watts:sum"), units.Watt, width=90),
        ),
        sort="Alerts",
        size=(24, 11),
        empty="No node reports GPUs: is gpu-exporter scraped, and are the recording rules loaded?",
    ).build()


def _models(made: build.Dashboard) -> None:
    def of(name: str) -> str:
        return f"model:{name}{{{CLUSTER}}}"

    made.with_panel(
        Table(
            title="Models",
            description="One row per GPU model: how many there are, how many are held, how they are used.",
            keys=(Key("model", "Model"),),
            columns=(
                Value("GPUs", of("gpu_up:sum"), "short", decimals=0, width=65, reduce="sum"),
                Value("Held", of("gpu_owner_share:sum"), "short", decimals=1, width=70, reduce="sum"),
                gauge("Utilization", of("gpu_utilization:ratio_rate5m"), look.PLAIN, reduce="avg", width=120),
                Value(
                    "Wasted",
                    of("gpu_waste:rate5m"),
                    "short",
                    look.SOME_IS_WORTH_A_LOOK,
                    decimals=1,
                    width=110,
                    reduce="sum",
                ),
            ),
            sort="GPUs",
            size=(10, 8),
        ).build()
    )
    made.with_panel(
        Table(
            title="Namespaces",
            description="One row per namespace that holds GPUs. Click one for its workloads.",
            keys=(Key("namespace", "Namespace", (link.to_namespace(link.cell("Namespace")),)),),
            columns=_owner_columns("namespace"),
            sort="Wasted",
            size=(7, 8),
            empty="No pod holds a GPU",
        ).build()
    )
    made.with_panel(
        Table(
            title="Slurm accounts",
            description="One row per account that holds GPUs. Click one for its jobs.",
            keys=(Key("account", "Account", (link.to_account(link.cell("Account")),)),),
            columns=_owner_columns("account"),
            sort="Wasted",
            size=(7, 8),
            empty="No Slurm job holds a GPU",
        ).build()
    )


def _owner_columns(level: str) -> tuple[Value, ...]:
    return (
        Value("GPUs", f"{level}:gpu_workload_gpus:sum{{{CLUSTER}}}", "short", decimals=1, width=65, reduce="sum"),
        gauge(
            "Utilization",
            f"{level}:gpu_utilization:ratio_rate5m{{{CLUSTER}}}",
            look.GOOD_IS_HIGH,
            reduce="avg",
            width=110,
        ),
        Value(
            "Wasted",
            f"{level}:gpu_waste:rate5m{{{CLUSTER}}}",
            "short",
            look.SOME_IS_WORTH_A_LOOK,
            decimals=1,
            width=80,
            reduce="sum",
        ),
    )


def _spread(made: build.Dashboard) -> None:
    utilization = f"node:gpu_utilization:ratio_rate5m{{{CLUSTER}}}"
    hottest = f"node:gpu_temperature_celsius:max{{{CLUSTER}}}"
    made.with_panel(
        panel.band(
            "Utilization over nodes",
            "The band holds the middle eight tenths of the nodes, the line is the median node. A wide band is work that is badly spread.",
            (
                over_time(f"quantile(0.1, {utilization})", "tenth lowest"),
                over_time(f"quantile(0.5, {utilization})", "median node"),
                over_time(f"quantile(0.9, {utilization})", "tenth highest"),
            ),
            units.PercentUnit,
            ("tenth lowest", "median node", "tenth highest"),
            ceiling=1,
        )
    )
    made.with_panel(
        panel.band(
            "Hottest GPU over nodes",
            "Each node counts with its hottest GPU: the median node, the coolest, and the hottest GPU of all. A mean would hide the one that is too hot.",
            (
                over_time(f"min({hottest})", "coolest node"),
                over_time(f"quantile(0.5, {hottest})", "median node"),
                over_time(f"max({hottest})", "hottest GPU"),
            ),
            units.Celsius,
            ("coolest node", "median node", "hottest GPU"),
            steps=look.HEAT,
            links=(link.to_health(),),
        )
    )
