# ruff: noqa: FBT003 - a table
"""The options of `gpu-exporter summaries`."""

from __future__ import annotations

from exporter.config.option import Option, boolean, choice, positive_duration, text
from exporter.tools.report.options import OPTIONS as REPORT_OPTIONS

_WORK, _SLURM, _SHOW = "What is done", "Slurm", "What is shown"
OPTIONS = (
    Option(
        "state-dir", "/var/lib/gpu-exporter-summaries", text, "DIR",
        "Where ended jobs are noted (DIR/ended), summaries kept (DIR/summaries.sqlite) and hints (DIR/hints).", _WORK,
    ),
    Option(
        "comment", "jobstats", choice("jobstats", "short", "none"), "FORM",
        "What becomes a job's AdminComment: jobstats (reportseff reads it too), short (one line) or none.", _WORK,
    ),
    Option(
        "cluster", "", text, "NAME",
        "Only series with this `cluster` label: another Slurm's jobs in the same Prometheus have the same ids.", _WORK,
    ),
    Option("settle", 30.0, positive_duration, "DURATION", "Time between a job's end and its summary.", _WORK),
    Option("look-back", 86400.0, positive_duration, "DURATION", "How far the first round looks in slurmdbd.", _WORK),
    Option("retention", 7776000.0, positive_duration, "DURATION", "How long summaries are kept.", _WORK),
    Option("budget", 50.0, positive_duration, "DURATION", "Time of one round; the rest is left to the next.", _WORK),
    Option(
        "slurm.sacct", "sacct", text, "COMMAND", "Empty: there is no slurmdbd, and nowhere to put comments.", _SLURM
    ),
    Option("slurm.sacctmgr", "sacctmgr", text, "COMMAND", "Writes comments into slurmdbd.", _SLURM),
    Option("slurm.scontrol", "scontrol", text, "COMMAND", "Names array elements without slurmdbd.", _SLURM),
    Option("list", False, boolean, "", "Show the summaries that were made, and do nothing else.", _SHOW),
    Option("user", "", text, "NAME", "Only this user's.", _SHOW),
    Option("since", 604800.0, positive_duration, "DURATION", "How far to look back.", _SHOW),
    Option("format", "text", choice("text", "json"), "FORMAT", "text or json.", _SHOW),
    *(option for option in REPORT_OPTIONS if option.name.startswith("prometheus.")),
)  # fmt: skip
