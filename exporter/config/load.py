"""Configuration: flags over environment over file over defaults, as a dataclass of options."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from exporter.config.command_line import ARGUMENT, Page, joined, parser
from exporter.config.kinds import near_miss, without_password
from exporter.config.option import ConfigError, Option, build, options_of
from exporter.core.site_file import SiteFileError, load_yaml

PREFIX = "GPU_EXPORTER_"
FILE = f"{PREFIX}CONFIG_FILE"
KIT = frozenset({f"{PREFIX}{name}" for name in ("JOBS", "CHECK_SETTINGS", "REPORT_SETTINGS", "REPORT_AFTER")})
"""Read by the scripts of deploy/slurm."""
_SERVICE = re.compile(rf"{PREFIX}(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)")
"""The variables Kubernetes gives every pod of a namespace about a service called gpu-exporter or gpu-exporter-…"""


def unknown(environment: Mapping[str, str], known: Collection[str]) -> list[str]:
    """Names that begin as options do, and are none of `known`."""
    taken = {FILE, *KIT, *known}
    return sorted(n for n in environment if n.startswith(PREFIX) and n not in taken and not _SERVICE.fullmatch(n))


def refuse(environment: Mapping[str, str], known: Collection[str]) -> None:
    """Raises ConfigError for the first variable that is no option, with the one that was probably meant."""
    for name in unknown(environment, known):
        hint = near_miss(name, known)
        raise ConfigError(f"{name}: no option is set by this variable{hint} (docs/options.md has them all)")


T = TypeVar("T")

_SHOWN = 200
"""Characters of a wrong value."""
_DASHES = "--"
"""The value in `--name=--`, of which argparse before Python 3.12 leaves an empty list."""
_ON_DISK = frozenset({"FILE", "DIR", "PATH", "COMMAND"})
"""Metavars of options whose values may be in any encoding, as the names of files are."""


def load(
    kind: type[T],
    arguments: Sequence[str],
    environment: Mapping[str, str],
    page: Page | None = None,
    others: Callable[[], Iterable[Option]] = tuple,
) -> T:
    """Return the configuration of one start. Raises ConfigError with one line that names the option or file.

    `others` returns the options of the other commands: one file serves them all.
    """
    table = options_of(kind)
    parsed = vars(parser(page or Page("gpu-exporter", ""), table).parse_intermixed_args(joined(arguments)))
    given: dict[str, str] = {name: _DASHES if isinstance(raw, list) else raw for name, raw in parsed.items()}
    file = given.pop("config.file") or environment.get("GPU_EXPORTER_CONFIG_FILE", "")
    from_file = _ConfigFile(Path(file), table, others).values() if file else dict[str, str]()
    argument = given.pop(ARGUMENT, "")
    found: dict[str, Any] = {}
    for option in table:
        for source, raw in (
            (f"--{option.name}", given.get(option.name)),
            (option.environment, environment.get(option.environment)),
            (f"{file}: {option.name}", from_file.get(option.name)),
        ):
            if raw is not None:
                found[option.name] = _parse_option(option, source, raw)
                break
    return build(kind, found, argument)


def _parse_option(option: Option, source: str, raw: str) -> Any:
    try:
        return option.parse(_checked_path(option, raw))
    except ValueError as error:
        shown = repr(without_password(raw[: 2 * _SHOWN]))
        shown = f"{shown[:_SHOWN]}…" if len(shown) > _SHOWN else shown
        raise ConfigError(f"{source}: expected {error}, got {shown}") from None


def _checked_path(option: Option, raw: str) -> str:
    """Given as it is where the system, or whoever is asked with it, can be checked. Raises ValueError where not."""
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


@dataclass(frozen=True)
class _ConfigFile:
    """The YAML file of options. Its keys are nested at the dots of an option's name, or written whole."""

    path: Path
    table: Sequence[Option]
    others: Callable[[], Iterable[Option]]

    def values(self) -> Mapping[str, str]:
        """Return the texts of the options by name. Raises ConfigError."""
        try:
            content = load_yaml(self.path)
        except SiteFileError as error:
            raise self._file_error(str(error)) from None
        names = {option.name for option in self.table}
        found = dict[str, str]()
        for name, value in self._flat_options(content):
            if name not in names:
                every = names | {option.name for option in self.others()}
                if name not in every:
                    raise self._file_error(f"unknown option {name[:_SHOWN]!r}{near_miss(name[:_SHOWN], every)}")
                continue  # it is another command's
            if name in found:
                raise self._file_error(f"{name} is there twice, whole and nested")
            found[name] = value
        return found

    def _file_error(self, what: str) -> ConfigError:
        return ConfigError(f"--config.file {self.path}: {what}")

    def _flat_options(self, content: object, prefix: str = "") -> Iterator[tuple[str, str]]:
        """Yield the options of nested mappings; a key `value` sets an option that also has others below it."""
        if content is None:  # empty, or every line below the key is a comment
            return
        if not isinstance(content, dict):
            raise self._file_error(f"expected a mapping of options, got {type(content).__name__}")
        for key, value in cast("Mapping[object, object]", content).items():
            name = f"{prefix}{key}" if not prefix or key != "value" else prefix.removesuffix(".")
            if self._is_nested(name, value):
                yield from self._flat_options(value, f"{name}.")
            else:
                yield name, self._text(name, value)

    def _is_nested(self, name: str, value: object) -> bool:
        """Return whether a value holds options or nothing, and is no mapping that is an option's value.

        The other commands are asked only where no option of this one is below the name.
        """
        if not isinstance(value, dict | None):
            return False
        if any(option.name.startswith(f"{name}.") for option in self.table):
            return True
        every = (*self.table, *self.others())
        if value is None:
            return any(option.name.startswith(f"{name}.") for option in every)
        return not any(option.mapping for option in every if option.name == name)

    def _text(self, name: str, value: object) -> str:
        """Return a value as a user would type it behind the option's flag."""
        if isinstance(value, list):
            parts = [str(part) for part in cast("Sequence[object]", value) if not isinstance(part, list | dict)]
            if len(parts) < len(cast("Sequence[object]", value)):
                raise self._file_error(f"{name}: expected a list of plain values")
            return ",".join(parts)
        if isinstance(value, dict):
            pairs = cast("Mapping[object, object]", value)
            if any(isinstance(each, list | dict) for each in pairs.values()):
                raise self._file_error(f"{name}: expected a mapping of plain values")
            return ",".join(f"{key}={_scalar_text(each)}" for key, each in pairs.items())
        return _scalar_text(value)


def _scalar_text(value: object) -> str:
    """Return a scalar of YAML as a user would type it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.12g}" if isinstance(value, float) else str(value)
