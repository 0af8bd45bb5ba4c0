# ruff: noqa: E501, FBT003 - a table
"""The options of `gpu-exporter check`, besides those it shares with the daemon."""

from __future__ import annotations

from exporter.check.render import FORMATS
from exporter.check.rules import NAMES
from exporter.config.option import Option, boolean, choice, names, natural, number, positive_duration, text

_GROUP = "Check"
# fmt: off
OPTIONS = (
    Option("format", "text", choice(*FORMATS), "FORMAT", "text, json, nagios (one line), npd (one line, node-problem-detector's exit codes).", _GROUP),
    Option("check.url", "", text, "URL", "Judge what this exporter serves, e.g. http://127.0.0.1:9836/metrics, in place of the driver.", _GROUP),
    Option("check.gpus", 0, natural, "N", "GPUs this node must have; 0: as many as its PCI bus shows.", _GROUP),
    Option("check.deadline", 30.0, positive_duration, "DURATION", "Time the GPUs have to answer.", _GROUP),
    Option("check.margin", 3.0, number, "DEGREES", "Degraded with fewer degrees left before the GPU slows itself down.", _GROUP),
    Option("check.hot", 70.0, number, "DEGREES", "Degraded when a fan stands still above this temperature.", _GROUP),
    Option("check.xid-window", 3600.0, positive_duration, "DURATION", "Time an XID counts for.", _GROUP),
    Option("check.ignore", (), names, "RULES", "Rules to leave out: " + ", ".join(NAMES) + ".", _GROUP),
    Option("check.fail-on", "failed", choice("failed", "degraded"), "VERDICT", "From which verdict on --drain drains, and npd reports the condition.", _GROUP),
    Option("drain", False, boolean, "", "Drain this Slurm node, with the reason, when it fails; resume it when it is well again, was drained so, and nobody had to mend it.", "Slurm"),
    Option("drain.good-checks", 3, natural, "N", "Checks in a row that must find nothing before a node is resumed; what needs hands is never resumed.", "Slurm"),
    Option("drain.node", "", text, "NAME", "Name of this node in Slurm (default: $SLURMD_NODENAME, else the short host name).", "Slurm"),
)
# fmt: on
