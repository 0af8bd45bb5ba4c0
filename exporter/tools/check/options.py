# ruff: noqa: E501, FBT003 - a table
"""The options of `gpu-exporter check`, besides those it shares with the daemon."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.config.network import web_address
from exporter.config.option import (
    Option,
    boolean,
    choice,
    duration,
    names,
    natural,
    number,
    positive_duration,
    text,
)
from exporter.faults.reference import REFERENCES
from exporter.faults.rules import NAMES
from exporter.faults.stages import STAGES
from exporter.tools.check.program import command
from exporter.tools.check.render import FORMATS

_GROUP = "Check"


def reference(value: str) -> Mapping[str, str]:
    """Values by name, from `driver=580.95.05,ecc=on`."""
    pairs = [part.partition("=") for part in value.split(",") if part.strip()]
    found = {name.strip(): text.strip() for name, _, text in pairs}
    if not all(found.values()) or not found.keys() <= REFERENCES.keys() or len(found) != len(pairs):
        raise ValueError(f"NAME=VALUE,… with names of {', '.join(REFERENCES)}")
    return {name: _accepted(name, text) for name, text in found.items()}


def _accepted(name: str, text: str) -> str:
    try:
        return REFERENCES[name].accepts(text)
    except ValueError as error:
        raise ValueError(f"{name} to be {error}") from None


# fmt: off
OPTIONS = (
    Option("format", "text", choice(*FORMATS), "FORMAT", "text, json, nagios (one line), npd (one line, node-problem-detector's exit codes).", _GROUP),
    Option("check.url", "", web_address, "URL", "Judge what this exporter serves, e.g. http://127.0.0.1:9836/metrics, in place of the driver.", _GROUP),
    Option("check.gpus", 0, natural, "N", "GPUs this node must have; 0: as many as its PCI bus shows.", _GROUP),
    Option("check.stage", "periodic", choice(*STAGES), "STAGE", "When this is: prolog and epilog (of a job), periodic, full (before a node goes back into service).", _GROUP),
    Option("check.deadline", 0.0, duration, "DURATION", "Time all of it may take; 0s: the budget of the stage, and 10s more to look again for a lost GPU.", _GROUP),
    Option("check.allow", ("nvidia-cuda-mps", "nv-hostengine", "dcgm", "nvidia-persiste", "Xorg"), names, "PROGRAMS", "Beginnings of names of programs that may stay on a GPU after a job.", _GROUP),
    Option("check.program", (), command, "COMMAND", "The site's own test, run in stage full, e.g. 'dcgmi diag -r 2' or a bandwidth test; another status than 0 is failed, and so are more than 16 MiB of output; one that cannot be started is unknown.", _GROUP),
    Option("check.link-errors", 1000.0, number, "N", "Degraded with more NVLink transfers repeated and links trained again since the driver was loaded.", _GROUP),
    Option("check.margin", 3.0, number, "DEGREES", "Degraded with fewer degrees left before the GPU slows itself down.", _GROUP),
    Option("check.hot", 70.0, number, "DEGREES", "Degraded when a fan stands still above this temperature.", _GROUP),
    Option("check.xid-window", 3600.0, positive_duration, "DURATION", "Time an XID counts for.", _GROUP),
    Option("check.reference", {}, reference, "LIST", "What every GPU must have, e.g. driver=580.95.05,ecc=on,power-limit=700; also vbios, model, persistence, and sm-clock and memory-clock (their maxima in MHz).", _GROUP),
    Option("check.ignore", (), names, "RULES", "Rules to leave out: " + ", ".join(NAMES) + ".", _GROUP),
    Option("check.fail-on", "failed", choice("failed", "degraded"), "VERDICT", "From which verdict on, failed or degraded, --drain drains and npd reports the condition.", _GROUP),
    Option("drain", False, boolean, "", "Drain this Slurm node, with the reason, when it fails; resume it when it is well again and was drained so. A lost GPU counts after two looks 10s apart.", "Slurm"),
    Option("drain.good-checks", 3, natural, "N", "Checks in a row that must find nothing before a node is resumed; a drain marked 'mend by hand' is never resumed.", "Slurm"),
    Option("drain.node", "", text, "NAME", "Name of this node in Slurm (default: $SLURMD_NODENAME, else the short host name).", "Slurm"),
)
# fmt: on
