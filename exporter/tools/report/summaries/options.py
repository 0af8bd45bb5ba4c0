"""The options of `gpu-exporter summaries`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from exporter.config.kinds import boolean, choice, path, positive_duration, text
from exporter.config.option import option, section
from exporter.tools.report.options import PrometheusConfig

_WORK, _SLURM, _SHOW, _FROM = "What is done", "Slurm", "What is shown", "Where from"


@dataclass(frozen=True, kw_only=True)
class SlurmCommands:
    """`--slurm.*`."""

    sacct: str = option("sacct", text, "Empty: there is no slurmdbd, and nowhere to put comments.", metavar="COMMAND")
    sacctmgr: str = option("sacctmgr", text, "Writes comments into slurmdbd.", metavar="COMMAND")
    scontrol: str = option("scontrol", text, "Names array elements without slurmdbd.", metavar="COMMAND")


@dataclass(frozen=True, kw_only=True)
class SummariesConfig:
    """Every option of `gpu-exporter summaries`."""

    state_dir: Path = option(
        "/var/lib/gpu-exporter-summaries",
        path,
        "Where ended jobs are noted (DIR/ended), summaries kept (DIR/summaries.sqlite) and hints (DIR/hints).",
        metavar="DIR",
        group=_WORK,
    )
    comment: str = option(
        "jobstats",
        choice("jobstats", "short", "none"),
        "What becomes a job's AdminComment: jobstats (reportseff reads it too), short (one line) or none.",
        metavar="FORM",
        group=_WORK,
    )
    cluster: str = option(
        "",
        text,
        "Only series with this `cluster` label: another Slurm's jobs in the same Prometheus have the same ids.",
        metavar="NAME",
        group=_WORK,
    )
    settle: float = option(
        "30s", positive_duration, "Time between a job's end and its summary.", metavar="DURATION", group=_WORK
    )
    look_back: float = option(
        "1d", positive_duration, "How far the first round looks in slurmdbd.", metavar="DURATION", group=_WORK
    )
    retention: float = option("90d", positive_duration, "How long summaries are kept.", metavar="DURATION", group=_WORK)
    budget: float = option(
        "50s", positive_duration, "Time of one round; the rest is left to the next.", metavar="DURATION", group=_WORK
    )
    slurm: SlurmCommands = section(SlurmCommands, group=_SLURM)
    list: bool = option("false", boolean, "Show the summaries that were made, and do nothing else.", group=_SHOW)
    user: str = option("", text, "Only this user's.", metavar="NAME", group=_SHOW)
    since: float = option("7d", positive_duration, "How far to look back.", metavar="DURATION", group=_SHOW)
    format: str = option("text", choice("text", "json"), "text or json.", metavar="FORMAT", group=_SHOW)
    prometheus: PrometheusConfig = section(PrometheusConfig, group=_FROM)
