"""The command line: its commands, and how `--help` shows them and their options."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from exporter import __version__
from exporter.config.option import ConfigError, Option, default_of

ARGUMENT = "argument"
"""The name under which Config has the argument without a flag."""
_MORE = """
The other options of the daemon are taken too, also from its environment and
file: gpu-exporter --help lists them.
"""
_OPEN = re.compile(r"--[^=-][^=]*")
"""A flag that has no value yet."""
_NEGATIVE = re.compile(r"-\.?[0-9]")
_WIDEST, _NARROWEST, _PLAIN = 100, 60, 79
"""Columns: of the options, as the terminal is, and of what is written here."""


@dataclass(frozen=True, slots=True)
class Command:
    """What stands after `gpu-exporter`."""

    module: str
    """Has `run`, which takes the arguments and gives the status."""
    about: str
    options: str = ""
    """The module of those it has beside the daemon's, as OPTIONS; empty where there are none."""


COMMANDS: Mapping[str, Command] = {
    "serve": Command("exporter.daemon.serve", "serve the metrics until asked to stop (the default)"),
    "once": Command("exporter.daemon.once", "print the metrics once"),
    "check": Command(
        "exporter.tools.check.command", "verdict on this node's GPUs, for health checks", "exporter.tools.check.options"
    ),
    "report": Command(
        "exporter.tools.report.command",
        "efficiency of a job, pod or user, from Prometheus",
        "exporter.tools.report.options",
    ),
    "capture": Command(
        "exporter.tools.capture.command",
        "record the driver's answers, for a bug report",
        "exporter.tools.capture.command",
    ),
    "acknowledge": Command(
        "exporter.tools.check.acknowledge",
        "end a fault that nothing can prove mended",
        "exporter.tools.check.acknowledge",
    ),
    "summaries": Command(
        "exporter.tools.report.summaries.command",
        "give ended Slurm jobs their summaries, or list them",
        "exporter.tools.report.summaries.options",
    ),
    "completion": Command("exporter.tools.reference.completion", "print the completion of bash, zsh or fish"),
}

STAND_INS: Mapping[str, str] = {
    "simulate": "exporter.tools.simulator:simulate",
    "driver.capture": "exporter.tools.capture.replay:load",
}
"""By option: what opens a driver in place of NVIDIA's, as MODULE:FUNCTION."""


@dataclass(frozen=True, slots=True)
class Page:
    """What `--help` prints around the options."""

    prog: str
    description: str
    """One line."""
    epilog: str = ""
    argument: str = ""
    """What the one argument without a flag is; empty where there is none."""
    groups: tuple[str, ...] = ()
    """The groups of options that are shown; empty: all. The daemon's page shows the others."""
    commands: Mapping[str, Command] = field(default_factory=dict[str, Command])
    """What may stand before the options."""

    @property
    def usage(self) -> str:
        words = (self.prog, "[COMMAND]" if self.commands else "", "[OPTION]...", self.argument and f"[{self.argument}]")
        return " ".join(filter(None, words))

    @property
    def opening(self) -> str:
        """What stands before the options."""
        if not self.commands:
            return textwrap.fill(self.description, _PLAIN)
        known = "".join(f"\n  {name:<12} {command.about}" for name, command in self.commands.items())
        return f"{textwrap.fill(self.description, _PLAIN)}\n\nCommands ({self.prog} COMMAND --help for more):{known}"


DAEMON = Page(
    "gpu-exporter",
    "Export NVIDIA GPU metrics to Prometheus, each GPU second with its owner and its cause.",
    """\
examples:
  gpu-exporter
  gpu-exporter --simulate 8xH200 --web.listen-address 127.0.0.1:9836
  gpu-exporter once --simulate 4xA100-mig
  gpu-exporter check

Each option is also an environment variable (--web.listen-address is
GPU_EXPORTER_WEB_LISTEN_ADDRESS) and a key of the YAML file
(web: {listen-address: ...}). A flag wins over the environment, the environment
over the file.
""",
    commands=COMMANDS,
)


class _Switch(argparse.Action):
    """`--name` and `--no-name`: one option, shown as `--[no-]name`."""

    def __call__(
        self, _parser: object, namespace: argparse.Namespace, _values: object, flag: str | None = None
    ) -> None:
        setattr(namespace, self.dest, "false" if (flag or "").startswith("--no-") else "true")


class _Printed(argparse.Action):
    """Prints something and ends. argparse's own actions end as well where it could not be written."""

    def __init__(self, *, text: Callable[[argparse.ArgumentParser], str], **rest: Any) -> None:
        super().__init__(nargs=0, **rest)
        self._text = text

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        sys.stdout.write(self._text(parser))
        sys.stdout.flush()
        parser.exit()


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Each option on a line of its own, what it does below; addresses are not cut in two."""

    def __init__(self, prog: str) -> None:
        import shutil  # noqa: PLC0415 - with bz2 and lzma; only help needs it

        width = min(max(shutil.get_terminal_size().columns - 1, _NARROWEST), _WIDEST)
        super().__init__(prog, max_help_position=6, width=width)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False, break_long_words=False)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if isinstance(action, _Switch):
            return f"--[no-]{action.dest}"
        return super()._format_action_invocation(action)


class _Parser(argparse.ArgumentParser):
    """An argument parser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        said = message.replace("ignored explicit argument", "expected no value, got")
        left = said.removeprefix("unrecognized arguments: ")
        hint = f"; the command comes first: gpu-exporter {left}" if left in COMMANDS else ""
        raise ConfigError(f"{said}{hint} (see --help)")


def joined(arguments: Iterable[str]) -> list[str]:
    """With `--name=-1s` for `--name -1s`, which argparse takes for two options; it is a value, if a wrong one."""
    made: list[str] = []
    for each in arguments:
        if made and _OPEN.fullmatch(made[-1]) and _NEGATIVE.match(each):
            made[-1] += f"={each}"
        else:
            made.append(each)
    return made


def parser(page: Page, table: Iterable[Option]) -> argparse.ArgumentParser:
    """A command line, grouped as the table is."""
    made = _Parser(
        prog=page.prog,
        usage=page.usage,
        description=page.opening,
        epilog=page.epilog + (_MORE if page.groups else ""),
        allow_abbrev=False,
        formatter_class=_Formatter,
        argument_default=argparse.SUPPRESS,
        add_help=False,
    )
    general = made.add_argument_group("General")
    general.add_argument("-h", "--help", action=_Printed, text=_Parser.format_help, help="Show this and exit.")
    general.add_argument("--version", action=_Printed, text=_version, help="Print the version and exit.")
    general.add_argument("--config.file", dest="config.file", metavar="FILE", default="", help="YAML file of options.")
    if page.argument:
        made.add_argument(ARGUMENT, nargs="?", metavar=page.argument, default="", help=argparse.SUPPRESS)
    groups: dict[str, argparse._ArgumentGroup] = {}  # pyright: ignore[reportPrivateUsage]
    for option in table:
        if page.groups and option.group not in page.groups:
            _add(made, option, argparse.SUPPRESS)
            continue
        if option.group not in groups:
            groups[option.group] = made.add_argument_group(option.group)
        _add(groups[option.group], option, _help(option))
    return made


def _version(_: object) -> str:
    return f"gpu-exporter {__version__}\n"


def _add(group: argparse._ActionsContainer, option: Option, text: str) -> None:  # pyright: ignore[reportPrivateUsage]
    if option.switch:
        names = (f"--{option.name}", f"--no-{option.name}")
        group.add_argument(*names, dest=option.name, action=_Switch, nargs=0, help=text)
    else:
        group.add_argument(f"--{option.name}", dest=option.name, metavar=option.metavar, help=text)


def _help(option: Option) -> str:
    default = ("on" if option.default else "off") if option.switch else default_of(option)
    return f"{option.help} (default: {default})".replace("%", "%%") if default else option.help.replace("%", "%%")
