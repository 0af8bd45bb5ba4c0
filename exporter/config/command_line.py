"""The command line: how `--help` shows commands and options, and what a wrong one is answered."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from exporter import __version__
from exporter.config.kinds import near_miss
from exporter.config.option import ConfigError, Option

ARGUMENT = "argument"
"""The name under which argparse has the argument without a flag."""
_MORE = """
These are the common options. --help-all shows every one.
"""
_OPEN = re.compile(r"--[^=-][^=]*")
"""A flag that has no value yet."""
_UNRECOGNIZED = "unrecognized arguments: "
"""Start of argparse's complaint about unknown arguments."""
_NEGATIVE = re.compile(r"-\.?[0-9]")
_WIDEST, _NARROWEST, _PLAIN = 100, 60, 79
"""Columns: of the options, as the terminal is, and of what is written here."""


@dataclass(frozen=True, slots=True)
class Page:
    """Text that `--help` prints around the options."""

    prog: str
    description: str
    """One line."""
    epilog: str = ""
    argument: str = ""
    """Meaning of the one argument without a flag; empty where there is none."""
    common: tuple[str, ...] = ()
    """Options, by name or group, that `--help` shows; empty: all. `--help-all` shows every option."""
    commands: Mapping[str, str] = field(default_factory=dict[str, str])
    """Subcommands before the options, and what each does."""
    examples: tuple[str, ...] = ()

    @property
    def usage(self) -> str:
        words = (self.prog, "[COMMAND]" if self.commands else "", "[OPTION]...", self.argument and f"[{self.argument}]")
        return " ".join(filter(None, words))

    @property
    def opening(self) -> str:
        """Text before the options."""
        parts = [textwrap.fill(self.description, _PLAIN)]
        if self.examples:
            parts.append("\n  ".join(("Examples:", *self.examples)))
        if self.commands:
            known = (f"{name:<12} {about}" for name, about in self.commands.items())
            parts.append("\n  ".join((f"Commands ({self.prog} COMMAND --help for more):", *known)))
        return "\n\n".join(parts)

    def shows(self, option: Option) -> bool:
        return not self.common or option.name in self.common or option.group in self.common


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

    def __init__(self, commands: Collection[str], **rest: Any) -> None:
        super().__init__(**rest)
        self._commands = commands

    def error(self, message: str) -> NoReturn:
        text = message.replace("ignored explicit argument", "expected no value, got")
        left = text.removeprefix(_UNRECOGNIZED)
        raise ConfigError(f"{text}{self._near_option(left) if left != text else ''} (see --help)")

    def _near_option(self, left: str) -> str:
        """Return what was probably meant by words that are no options."""
        if left in self._commands:
            return f"; the command comes first: gpu-exporter {left}"
        flag = left.split(maxsplit=1)[0].partition("=")[0] if left else ""
        return near_miss(flag, self._option_string_actions) if flag.startswith("--") else ""


def joined(arguments: Iterable[str]) -> list[str]:
    """Join `--name -1s` to `--name=-1s`: argparse reads two options, but it is a value, if a wrong one."""
    made: list[str] = []
    for each in arguments:
        if made and _OPEN.fullmatch(made[-1]) and _NEGATIVE.match(each):
            made[-1] += f"={each}"
        else:
            made.append(each)
    return made


def parser(page: Page, table: Collection[Option]) -> argparse.ArgumentParser:
    """A command line, grouped as the table is."""
    made = _Parser(
        page.commands,
        usage=page.usage,
        description=page.opening,
        epilog=page.epilog + (_MORE if page.common else ""),
        allow_abbrev=False,
        formatter_class=_Formatter,
        argument_default=argparse.SUPPRESS,
        add_help=False,
    )
    general = made.add_argument_group("General")
    general.add_argument("-h", "--help", action=_Printed, text=_Parser.format_help, help="Show this and exit.")

    def every(_: argparse.ArgumentParser) -> str:
        return parser(replace(page, common=()), table).format_help()

    general.add_argument("--help-all", action=_Printed, text=every, help="Show every option and exit.")
    general.add_argument("--version", action=_Printed, text=_version_text, help="Print the version and exit.")
    general.add_argument("--config.file", dest="config.file", metavar="FILE", default="", help="YAML file of options.")
    if page.argument:
        made.add_argument(ARGUMENT, nargs="?", metavar=page.argument, default="", help=argparse.SUPPRESS)
    groups: dict[str, argparse._ArgumentGroup] = {}  # pyright: ignore[reportPrivateUsage]
    for option in table:
        if not page.shows(option):
            _add_option(made, option, argparse.SUPPRESS)
            continue
        if option.group not in groups:
            groups[option.group] = made.add_argument_group(option.group)
        default = ("on" if option.default_value else "off") if option.switch else option.shown_default
        text = f"{option.help} (default: {default})" if default else option.help
        _add_option(groups[option.group], option, text.replace("%", "%%"))
    return made


def _version_text(_: object) -> str:
    return f"gpu-exporter {__version__}\n"


def _add_option(group: argparse._ActionsContainer, option: Option, text: str) -> None:  # pyright: ignore[reportPrivateUsage]
    if option.switch:
        names = (f"--{option.name}", f"--no-{option.name}")
        group.add_argument(*names, dest=option.name, action=_Switch, nargs=0, help=text)
    else:
        group.add_argument(f"--{option.name}", dest=option.name, metavar=option.metavar, help=text)
