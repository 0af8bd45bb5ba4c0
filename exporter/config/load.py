"""Configuration: flags over environment over file over defaults, all from one table of options."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from exporter.collectors import COLLECTORS
from exporter.config.command_line import ARGUMENT, COMMANDS, DAEMON, Page, joined, parser
from exporter.config.network import without_password
from exporter.config.option import STATIC, ConfigError, Option, amount, boolean, share, show
from exporter.core.site_file import SiteFileError
from exporter.ledger.thresholds import Thresholds

_SHOWN = 200
"""Characters of a wrong value."""
_DASHES = "--"
"""The value in `--name=--`, of which argparse before Python 3.12 leaves an empty list."""
_ON_DISK = frozenset({"FILE", "DIR", "PATH", "COMMAND"})
"""Of options whose values may be in any encoding, as the names of files are."""


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
        Option(f"ledger.{f.name.replace('_', '-')}", f.default, _bounds(f.name), "NUMBER", f.metadata["help"], "Ledger")
        for f in fields(Thresholds)
    )
    return (*STATIC, *switches, events, *thresholds)


@functools.lru_cache(maxsize=1)
def every_option() -> Mapping[str, Option]:
    """The options of all commands, by name: they share environment and file."""
    tables = [importlib.import_module(command.options).OPTIONS for command in COMMANDS.values() if command.options]
    return {option.name: option for table in (options(), *tables) for option in table}


def _bounds(threshold: str) -> Callable[[str], float]:
    """Those that the thresholds themselves hold to, so that a wrong one is told of its option."""
    try:
        Thresholds(**{threshold: 2.0})
    except ValueError:
        return share
    return amount


def load(
    arguments: Sequence[str], environment: Mapping[str, str], table: Sequence[Option], page: Page | None = None
) -> Config:
    """The configuration of one start. Raises ConfigError with one line that names the option or file."""
    parsed = vars(parser(page or DAEMON, table).parse_intermixed_args(joined(arguments)))
    given: dict[str, str] = {name: _DASHES if isinstance(raw, list) else raw for name, raw in parsed.items()}
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
                return option.parse(_writable(option, raw))
            except ValueError as error:
                raise ConfigError(f"{source}: expected {error}, got {_shown(raw)}") from None
    return option.default


def _writable(option: Option, raw: str) -> str:
    """Given as it is where the system, or whoever is asked with it, can be told. Raises ValueError where not."""
    try:
        if option.metavar in _ON_DISK:
            os.fsencode(raw)
        else:
            raw.encode()
    except UnicodeEncodeError:
        raise ValueError("text in UTF-8") from None
    if "\0" in raw:
        raise ValueError("text without NUL")
    return raw


def _shown(raw: str) -> str:
    """What was given, without a password, and cut where it is endless."""
    shown = repr(without_password(raw[: 2 * _SHOWN]))
    return f"{shown[:_SHOWN]}…" if len(shown) > _SHOWN else shown


def _file(path: Path, table: Iterable[Option]) -> dict[str, str]:
    from exporter.core import site_yaml  # noqa: PLC0415 - few nodes have such a file; else no parser is loaded

    try:
        content = site_yaml.load(path)
    except SiteFileError as error:
        raise ConfigError(f"--config.file {path}: {error}") from None
    known = {option.name for option in table}  # those of other commands may be there too, for one file serves all
    flat = dict[str, str]()
    for name, value in _flatten(content if content is not None else {}, path, known):
        if name not in known:
            if name not in every_option():
                raise ConfigError(f"--config.file {path}: unknown option {name[:_SHOWN]!r}")
            continue
        if name in flat:
            raise ConfigError(f"--config.file {path}: {name} is there twice, whole and nested")
        flat[name] = value
    return flat


def _flatten(content: Any, path: Path, known: set[str], prefix: str = "") -> Iterable[tuple[str, str]]:
    """Options of nested mappings; a key `""` or `value` sets an option that also has others below it."""
    if not isinstance(content, dict):
        raise ConfigError(f"--config.file {path}: expected a mapping of options, got {type(content).__name__}")
    for key, value in content.items():  # pyright: ignore[reportUnknownVariableType]
        name = f"{prefix}{key}" if key != "value" else prefix.removesuffix(".")
        if isinstance(value, dict):
            yield from _flatten(value, path, known, f"{name}.")
        elif isinstance(value, list):
            if any(isinstance(part, list | dict) for part in value):  # pyright: ignore[reportUnknownVariableType]
                raise ConfigError(f"--config.file {path}: {name}: expected a list of plain values")
            yield name, ",".join(str(part) for part in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        else:
            yield name, show(value) if value is not None else ""
