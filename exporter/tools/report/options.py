# ruff: noqa: FBT003 - a table
"""The options of `gpu-exporter report`."""

from __future__ import annotations

from datetime import datetime

from exporter.config.network import web_address
from exporter.config.option import Option, boolean, choice, positive_duration, text
from exporter.tools.report import price


def moment(value: str) -> float:
    """Unix seconds of a time as people and programs write it, local where it names no zone."""
    try:
        return datetime.fromisoformat(value.strip().replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        raise ValueError("a time such as 2026-11-20 or 2026-11-20T14:00") from None


FORMATS = ("text", "markdown", "json", "html", "short")

_WHAT, _FORM, _FROM = "What", "How", "Where from"
OPTIONS = (
    Option("pod", "", text, "NAMESPACE/NAME", "Report on this pod.", _WHAT),
    Option("workload", "", text, "ID", "Report on the workload with this id, e.g. docker:web.", _WHAT),
    Option("user", "", text, "NAME", "Digest of this user's GPU hours.", _WHAT),
    Option("account", "", text, "NAME", "Digest of this Slurm account's GPU hours.", _WHAT),
    Option("namespace", "", text, "NAME", "Digest of this namespace's GPU hours.", _WHAT),
    Option("all", False, boolean, "", "Digest of everybody's GPU hours, ranked by what was wasted.", _WHAT),
    Option("since", 604800.0, positive_duration, "DURATION", "How far to look back.", _WHAT),
    Option("cluster", "", text, "NAME", "Only series with this `cluster` label.", _WHAT),
    Option(
        "changed-at",
        "",
        moment,
        "TIME",
        "When something was changed: runs of the same name and user are compared before and after.",
        _WHAT,
    ),
    Option(
        "format",
        "text",
        choice(*FORMATS),
        "FORMAT",
        "text, markdown, json, html, or short (one line, for AdminComment).",
        _FORM,
    ),
    Option(
        "price",
        price.PRICES,
        price.parse,
        "MODEL=PRICE",
        "Price of a GPU hour by model, e.g. H200=2.5,A100=1.2; the rest as on the dashboards.",
        _FORM,
    ),
    Option(
        "price-by",
        "held",
        choice("held", "used"),
        "WHAT",
        "What is paid for: held, the share of GPUs that was held, or used, the time that kernels ran on them.",
        _FORM,
    ),
    Option("currency", "$", text, "TEXT", "What prices are in.", _FORM),
    Option(
        "prometheus.url",
        "http://127.0.0.1:9090",
        web_address,
        "URL",
        "Prometheus, or what answers its query API (Thanos, Mimir, VictoriaMetrics).",
        _FROM,
    ),
    Option("slurm.sacct", "sacct", text, "COMMAND", "Asked about a Slurm job too, where it is installed.", _FROM),
    Option("prometheus.timeout", 30.0, positive_duration, "DURATION", "Time one query may take.", _FROM),
    Option("prometheus.bearer-token-file", "", text, "FILE", "File with a bearer token.", _FROM),
    Option("prometheus.username", "", text, "NAME", "User name for basic auth.", _FROM),
    Option("prometheus.password-file", "", text, "FILE", "File with its password.", _FROM),
    Option("prometheus.ca-file", "", text, "FILE", "Certificates to trust in place of the system's.", _FROM),
    Option(
        "prometheus.headers",
        "",
        text,
        "NAME=VALUE",
        "Headers to send, with commas between, e.g. X-Scope-OrgID=team.",
        _FROM,
    ),
)
