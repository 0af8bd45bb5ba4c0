"""Configuration: flags over environment over file over defaults, all from one table of options."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

from exporter import __version__
from exporter.collectors import COLLECTORS
from exporter.config.option import STATIC, ConfigError, Option, boolean, duration_text, number
from exporter.ledger.thresholds import Thresholds

ARGUMENT = "argument"
"""The name under which Config has the argument without a flag."""


class Config:
    """The value of every option, by name; never changed once made."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def under(self, prefix: str) -> dict[str, Any]:
        """The options below a prefix, without it: `under("ledger")`."""
        return {
            name.removeprefix(f"{prefix}."): value
            for name, value in self._values.items()
            if name.startswith(f"{prefix}.")
        }


def options() -> tuple[Option, ...]:
    """All options: the fixed ones, and those that follow from the collectors and the ledger's thresholds."""
    events = Option(
        "collector.xid", True, boolean, "", "XIDs from the driver's events and the kernel log.", "Collectors"
    )
    switches = tuple(Option(f"collector.{c.name}", c.enabled, boolean, "", c.help, "Collectors") for c in COLLECTORS)
    thresholds = tuple(
        Option(f"ledger.{f.name.replace('_', '-')}", f.default, number, "NUMBER", f.metadata["help"], "Ledger")
        for f in fields(Thresholds)
    )
    return (*STATIC, *switches, events, *thresholds)


class _Switch(argparse.Action):
    """`--name` and `--no-name`: one option, and both are shown."""

    def __call__(
        self, _parser: object, namespace: argparse.Namespace, _values: object, flag: str | None = None
    ) -> None:
        setattr(namespace, self.dest, "false" if (flag or "").startswith("--no-") else "true")


class _Parser(argparse.ArgumentParser):
    """An argument parser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message} (see --help)")


def parser(page: Page, table: Iterable[Option]) -> argparse.ArgumentParser:
    """A command line, grouped as the table is."""
    made = _Parser(
        prog=page.prog,
        description=page.description,
        epilog=page.epilog,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    made.add_argument("--version", action="version", version=f"gpu-exporter {__version__}", help="Print the version.")
    made.add_argument("--config.file", dest="config.file", metavar="FILE", default="", help="YAML file of options.")
    if page.argument:
        made.add_argument(ARGUMENT, nargs="?", metavar=page.argument, default="", help=argparse.SUPPRESS)
    groups: dict[str, argparse._ArgumentGroup] = {}  # pyright: ignore[reportPrivateUsage]
    for option in table:
        group = groups.setdefault(option.group, made.add_argument_group(option.group))
        add(group, option)
    return made


def add(group: argparse._ArgumentGroup, option: Option) -> None:  # pyright: ignore[reportPrivateUsage]
    if option.switch:
        help_ = f"{option.help} (default: {'on' if option.default else 'off'})"
        names = (f"--{option.name}", f"--no-{option.name}")
        group.add_argument(*names, dest=option.name, action=_Switch, nargs=0, help=help_)
    else:
        help_ = f"{option.help}{default_text(option)}".replace("%", "%%")
        group.add_argument(f"--{option.name}", dest=option.name, metavar=option.metavar, help=help_)


def default_text(option: Option) -> str:
    shown = default_of(option)
    return f" (default: {shown})" if shown else ""


def default_of(option: Option) -> str:
    """The default as a user would type it; empty where there is none."""
    return duration_text(option.default) if option.timed else show(option.default)


def show(value: Any) -> str:
    """A default as a user would type it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], int):  # noqa: PLR2004  # pyright: ignore[reportUnknownArgumentType]
        return f"{value[0]}:{value[1]}"
    if isinstance(value, tuple):
        return ",".join(str(part) for part in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


@dataclass(frozen=True, slots=True)
class Page:
    """What `--help` says around the options."""

    prog: str
    description: str
    epilog: str = ""
    argument: str = ""
    """What the one argument without a flag is; empty where there is none."""


def load(
    arguments: Sequence[str], environment: Mapping[str, str], table: Sequence[Option], page: Page | None = None
) -> Config:
    """The configuration of one start. Raises ConfigError with one line that names the option or file."""
    given = vars(parser(page or DAEMON, table).parse_intermixed_args(list(arguments)))
    file = given.pop("config.file") or environment.get("GPU_EXPORTER_CONFIG_FILE", "")
    from_file = _file(Path(file), table) if file else {}
    values: dict[str, Any] = {ARGUMENT: given.pop(ARGUMENT, "")}
    for option in table:
        values[option.name] = _value(option, given, environment, from_file, file)
    return Config(values)


def _value(
    option: Option, given: Mapping[str, str], environment: Mapping[str, str], from_file: Mapping[str, str], file: str
) -> Any:
    for source, raw in (
        (f"--{option.name}", given.get(option.name)),
        (option.environment, environment.get(option.environment)),
        (f"{file}: {option.name}", from_file.get(option.name)),
    ):
        if raw is not None:
            try:
                return option.parse(raw)
            except ValueError as error:
                raise ConfigError(f"{source}: expected {error}, got {raw!r}") from None
    return option.default


def _file(path: Path, table: Iterable[Option]) -> dict[str, str]:
    import yaml  # noqa: PLC0415 - few nodes have such a file, and a run without it does not load the parser

    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigError(f"--config.file {path}: {error.strerror or error}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config.file {path}: not YAML: {' '.join(str(error).split())}") from None
    known = {option.name for option in table}
    flat = dict(_flatten(content if content is not None else {}, path, known))
    for name in flat:
        if name not in known:
            raise ConfigError(f"--config.file {path}: unknown option {name!r}")
    return flat


def _flatten(content: Any, path: Path, known: set[str], prefix: str = "") -> Iterable[tuple[str, str]]:
    """Options of nested mappings; a key `""` or `value` sets an option that also has others below it."""
    if not isinstance(content, dict):
        raise ConfigError(f"--config.file {path}: expected a mapping of options, got {content!r}")
    for key, value in content.items():  # pyright: ignore[reportUnknownVariableType]
        name = f"{prefix}{key}" if key != "value" else prefix.removesuffix(".")
        if isinstance(value, dict):
            yield from _flatten(value, path, known, f"{name}.")
        elif isinstance(value, list):
            yield name, ",".join(str(part) for part in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        else:
            yield name, show(value) if value is not None else ""


DAEMON = Page(
    "gpu-exporter",
    "Export NVIDIA GPU metrics to Prometheus, each GPU second with its owner and its cause.",
    """\
commands:
  gpu-exporter once        print the metrics once and exit
  gpu-exporter capture     record the driver's answers to a file
  gpu-exporter check       verdict on this node's GPUs, for health checks
  gpu-exporter report      efficiency of a job, pod or user, from Prometheus
  gpu-exporter completion  print the completion of bash, zsh or fish

examples:
  gpu-exporter
  gpu-exporter --simulate 8xH200 --web.listen-address 127.0.0.1:9836
  gpu-exporter once --simulate 4xA100-mig

Each option is also an environment variable (--web.listen-address: GPU_EXPORTER_WEB_LISTEN_ADDRESS) and a key of
the YAML file (web: {listen-address: ...}). A flag wins over the environment, the environment over the file.
""",
)
