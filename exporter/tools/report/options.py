"""The options of `gpu-exporter report` and `gpu-exporter summaries`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from exporter.config.kinds import boolean, choice, optional_path, path, positive_duration, text, web_address
from exporter.config.option import option, options_of, positional, section
from exporter.tools.report.accounting.database import GROUPS
from exporter.tools.report.accounting.prices import Month, month


def optional_moment(value: str) -> float | None:
    """Return None for an empty text."""
    return moment(value) if value else None


def moment(value: str) -> float:
    """Unix seconds of a time as people and programs write it, local where it names no zone."""
    try:
        return datetime.fromisoformat(value.strip().replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        raise ValueError("a time such as 2026-11-20 or 2026-11-20T14:00") from None


def optional_month(value: str) -> Month | None:
    """Return None for an empty text."""
    return month(value) if value else None


MONTH_FORMATS = ("csv", "focus", "opencost")
FORMATS = ("text", "markdown", "json", "html", "short")

_WHAT, _FORM, _FROM = "What", "How", "Where from"


@dataclass(frozen=True, kw_only=True)
class PrometheusConfig:
    """`--prometheus.*`."""

    url: str = option(
        "http://127.0.0.1:9090",
        web_address,
        "Prometheus, or a server with its query API (Thanos, Mimir, VictoriaMetrics).",
        metavar="URL",
    )
    timeout: float = option("30s", positive_duration, "Time one query may take.", metavar="DURATION")
    bearer_token_file: Path | None = option("", optional_path, "File with a bearer token.", metavar="FILE")
    username: str = option("", text, "User name for basic auth.", metavar="NAME")
    password_file: Path | None = option("", optional_path, "File with its password.", metavar="FILE")
    ca_file: Path | None = option("", optional_path, "Certificates to trust in place of the system's.", metavar="FILE")
    headers: str = option(
        "", text, "Headers to send, with commas between, e.g. X-Scope-OrgID=team.", metavar="NAME=VALUE"
    )


@dataclass(frozen=True, kw_only=True)
class DatabaseConfig:
    """`--accounting.*`."""

    database: Path | None = option(
        "",
        optional_path,
        "Database of `gpu-exporter accounting`: a month is read from it, and summaries have exact GPU hours.",
        metavar="FILE",
    )


@dataclass(frozen=True, kw_only=True)
class ReportConfig:
    """Every option of `gpu-exporter report`."""

    pod: str = option("", text, "Report on this pod.", metavar="NAMESPACE/NAME", group=_WHAT)
    workload: str = option("", text, "Report on the workload with this id, e.g. docker:web.", metavar="ID", group=_WHAT)
    user: str = option("", text, "Digest of this user's GPU hours.", metavar="NAME", group=_WHAT)
    account: str = option("", text, "Digest of this Slurm account's GPU hours.", metavar="NAME", group=_WHAT)
    namespace: str = option("", text, "Digest of this namespace's GPU hours.", metavar="NAME", group=_WHAT)
    all: bool = option("false", boolean, "Digest of all GPU hours, ranked by what was wasted.", group=_WHAT)
    since: float = option("7d", positive_duration, "How far to look back.", metavar="DURATION", group=_WHAT)
    month: Month | None = option(
        "", optional_month, "What each team got in this month, e.g. 2026-10.", metavar="YYYY-MM", group=_WHAT
    )
    team: str = option("", text, "Only this team: an account, else a namespace.", metavar="NAME", group=_WHAT)
    by: str = option("team", choice(*GROUPS), f"Rows of a month: {', '.join(GROUPS)}.", metavar="GROUP", group=_WHAT)
    cluster: str = option("", text, "Only series with this `cluster` label.", metavar="NAME", group=_WHAT)
    changed_at: float | None = option(
        "",
        optional_moment,
        "When something was changed: runs of the same name and user are compared before and after.",
        metavar="TIME",
        group=_WHAT,
    )
    format: str = option(
        "text",
        choice(*FORMATS, *MONTH_FORMATS, "rules"),
        "text, markdown, json, html, or short (one line, for AdminComment); of a month also csv, focus or opencost;"
        " rules: the prices as a rule file.",
        metavar="FORMAT",
        group=_FORM,
    )
    prices: Path | None = option(
        "",
        optional_path,
        "Prices of the site (YAML), of --month and --format rules. Other reports use the recorded ones.",
        metavar="FILE",
        group=_FORM,
        name="prices.file",
    )
    prometheus: PrometheusConfig = section(PrometheusConfig, group=_FROM)
    sacct: str = option(
        "sacct",
        text,
        "Asked about a Slurm job too, where it is installed.",
        metavar="COMMAND",
        group=_FROM,
        name="slurm.sacct",
    )
    accounting: DatabaseConfig = section(DatabaseConfig, group=_FROM)
    name: str = positional()


_WORK, _SLURM, _SHOW = "What is done", "Slurm", "What is shown"


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
        name="state.dir",
    )
    accounting: DatabaseConfig = section(DatabaseConfig, group=_WORK)
    comment: str = option(
        "jobstats",
        choice("jobstats", "short", "none"),
        "What becomes a job's AdminComment: jobstats (reportseff reads it too), short (one line) or none.",
        metavar="FORM",
        group=_WORK,
    )
    comment_existing: str = option(
        "append",
        choice("append", "keep"),
        "If the site has written an AdminComment: append one line to it, or keep it alone.",
        metavar="WHAT",
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


OPTIONS = options_of(ReportConfig)
