"""The options of `gpu-exporter check`, besides those of the daemon."""

from __future__ import annotations

from dataclasses import dataclass

from exporter.config.kinds import (
    Subset,
    boolean,
    choice,
    duration,
    names,
    non_negative_int,
    number,
    text,
    web_address,
)
from exporter.config.option import option, options_of, section
from exporter.daemon.config import DaemonConfig
from exporter.faults.evaluate import STAGES
from exporter.faults.rules import NAMES
from exporter.tools.check.program import command
from exporter.tools.check.render import FORMATS


@dataclass(frozen=True, kw_only=True)
class HealthConfig:
    """`--check.*`."""

    url: str = option(
        "",
        web_address,
        "Evaluate what this exporter serves, e.g. http://127.0.0.1:9836/metrics, in place of the driver.",
        metavar="URL",
    )
    stage: str = option(
        "periodic",
        choice(*STAGES),
        "When this is: prolog and epilog (of a job), periodic, full (before a node goes back into service).",
        metavar="STAGE",
    )
    deadline: float = option(
        "0s",
        duration,
        "Time all of it may take; 0s: the budget of the stage, and 10s more to check a lost GPU again.",
        metavar="DURATION",
    )
    allow: tuple[str, ...] = option(
        "nvidia-cuda-mps,nv-hostengine,dcgm,nvidia-persiste,Xorg",
        names,
        "Beginnings of names of programs that may stay on a GPU after a job.",
        metavar="PROGRAMS",
    )
    program: tuple[str, ...] = option(
        "",
        command,
        "The site's own test, run in stage full, e.g. 'dcgmi diag -r 2' or a bandwidth test; another status than 0 is "
        "failed, and so are more than 16 MiB of output; one that cannot be started is unknown.",
        metavar="COMMAND",
    )
    link_errors: float = option(
        "1000",
        number,
        "Degraded with more NVLink transfers repeated and links trained again since the driver was loaded.",
        metavar="N",
    )
    margin: float = option(
        "3", number, "Degraded with fewer degrees left before the GPU slows itself down.", metavar="DEGREES"
    )
    hot: float = option("70", number, "Degraded when a fan stands still above this temperature.", metavar="DEGREES")
    ignore: tuple[str, ...] = option(
        "", Subset(NAMES), "Rules to leave out: " + ", ".join(NAMES) + ".", metavar="RULES"
    )
    fail_on: str = option(
        "failed",
        choice("failed", "degraded"),
        "From which verdict on, failed or degraded, --drain drains and npd reports the condition.",
        metavar="VERDICT",
    )


@dataclass(frozen=True, kw_only=True)
class DrainConfig:
    """`--drain` and what is below it."""

    on: bool = option(
        "false",
        boolean,
        "Drain this Slurm node, with the reason, when it fails; resume it when it is well again and was drained so. "
        "A lost GPU counts after two checks 10s apart.",
        name="",
    )
    good_checks: int = option(
        "3",
        non_negative_int,
        "Checks in a row that must find nothing before a node is resumed; a drain with 'repair by hand' is never "
        "resumed.",
        metavar="N",
    )
    node: str = option(
        "",
        text,
        "Name of this node in Slurm (default: $SLURMD_NODENAME, else the short host name).",
        metavar="NAME",
    )


@dataclass(frozen=True, kw_only=True)
class OwnConfig:
    """The options that the check has beside the daemon's."""

    format: str = option(
        "text",
        choice(*FORMATS),
        "text, json, nagios (one line), npd (one line, node-problem-detector's exit codes).",
        metavar="FORMAT",
        group="Check",
    )
    check: HealthConfig = section(HealthConfig, group="Check")
    drain: DrainConfig = section(DrainConfig, group="Slurm")


@dataclass(frozen=True, kw_only=True)
class CheckConfig(OwnConfig):
    """Every option of `gpu-exporter check`."""

    daemon: DaemonConfig = section(DaemonConfig, "")


OPTIONS = options_of(OwnConfig)
