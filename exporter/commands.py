"""The composition root: commands, and the drivers that stand in for NVIDIA's, by the names of their modules.

The daemon knows the tools beside it only through these names.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from exporter.config import load as config
from exporter.config.command_line import Page
from exporter.config.option import Option, options_of


@dataclass(frozen=True, slots=True)
class Command:
    """A command: the word after `gpu-exporter`."""

    module: str
    """Has `run`, which takes the configuration and returns the status, and PAGE, what `--help` shows."""
    about: str
    config: str = "exporter.daemon.config:DaemonConfig"
    """The dataclass of its options, as MODULE:CLASS; empty for a command that takes words alone."""


COMMANDS: Mapping[str, Command] = {
    "serve": Command("exporter.daemon.serve", "serve the metrics until asked to stop (the default)"),
    "once": Command("exporter.daemon.once", "print the metrics once"),
    "check": Command(
        "exporter.tools.check.command",
        "verdict on this node's GPUs, for health checks",
        "exporter.tools.check.options:CheckConfig",
    ),
    "report": Command(
        "exporter.tools.report.command",
        "efficiency of a job, pod or user; cost of a team's month",
        "exporter.tools.report.options:ReportConfig",
    ),
    "capture": Command(
        "exporter.tools.capture.command",
        "record the driver's answers, for a bug report",
        "exporter.tools.capture.command:CaptureConfig",
    ),
    "acknowledge": Command(
        "exporter.tools.check.acknowledge",
        "clear a fault that no signal proves fixed",
        "exporter.tools.check.acknowledge:AcknowledgeConfig",
    ),
    "summaries": Command(
        "exporter.tools.report.summaries.command",
        "give ended Slurm jobs their summaries, or list them",
        "exporter.tools.report.options:SummariesConfig",
    ),
    "accounting": Command(
        "exporter.tools.report.accounting.command",
        "collect the allocations of all nodes, for `report --month`",
        "exporter.tools.report.accounting.command:AccountingConfig",
    ),
    "completion": Command("exporter.tools.reference.shell_completion", "print the completion of bash, zsh or fish", ""),
}

STAND_INS: Mapping[str, str] = {
    "simulate": "exporter.tools.simulator:simulate",
    "driver.capture": "exporter.tools.capture.replay:load",
}
"""Functions by option. Each opens a driver in place of NVIDIA's, as MODULE:FUNCTION."""

DAEMON = Page(
    "gpu-exporter",
    "Export NVIDIA GPU metrics to Prometheus, each GPU second with its owner and its cause.",
    """\
Each option is also an environment variable (--web.listen-address is
GPU_EXPORTER_WEB_LISTEN_ADDRESS) and a key of the YAML file
(web: {listen-address: ...}). A flag wins over the environment, the environment
over the file.
""",
    commands={name: command.about for name, command in COMMANDS.items()},
    common=(
        "web.listen-address",
        "web.config.file",
        "metrics.hide",
        "collectors.disable",
        "attribution.kubernetes",
        "attribution.slurm",
        "state.dir",
        "expect.gpus",
        "simulate",
        "log.level",
    ),
    examples=("gpu-exporter", "gpu-exporter --simulate 8xH200 --web.listen-address 127.0.0.1:9836"),
)


def run(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command and return its status. Raises ConfigError."""
    module = importlib.import_module(COMMANDS[name].module)
    return int(module.run(load(name, arguments, environment) if COMMANDS[name].config else arguments))


def load(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> Any:
    """Return the configuration of a command. Raises ConfigError."""
    return config.load(_config(name), arguments, environment, page(name), lambda: every_option().values())


def page(name: str) -> Page:
    """Return what `--help` of a command shows."""
    found: Page = DAEMON if name == "serve" else importlib.import_module(COMMANDS[name].module).PAGE
    return found


def options(name: str) -> tuple[Option, ...]:
    """Return the options of a command."""
    return options_of(_config(name)) if COMMANDS[name].config else ()


@functools.lru_cache(maxsize=1)
def every_option() -> Mapping[str, Option]:
    """Return the options of all commands by name: they share environment and file."""
    return {option.name: option for name in COMMANDS for option in options(name)}


def opener(option: str) -> Any:
    """Return the function that opens the driver that an option names."""
    module, _, function = STAND_INS[option].partition(":")
    return getattr(importlib.import_module(module), function)


def _config(name: str) -> type[Any]:
    module, _, kind = COMMANDS[name].config.partition(":")
    found: type[Any] = getattr(importlib.import_module(module), kind)
    return found
