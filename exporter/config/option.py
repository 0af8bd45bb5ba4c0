"""Options, declared as fields of frozen dataclasses: flag, environment variable, YAML key, default and help in one.

`sample: SamplingConfig = section(SamplingConfig)` with `interval: float = option("1s", duration, "...")` is
`--sample.interval`. A field's name is the option's name below its section, with dashes for underscores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from exporter.config.kinds import Pairs, boolean, names

T = TypeVar("T")

_DECLARED, _NAME = "option", "name"
"""Keys of a field's metadata: an Option without its name, a _Section or a _Positional; the name of an option."""


class ConfigError(Exception):
    """One line that names the option or file, and what was expected."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `parse` turns text into the value and raises ValueError with what was expected."""

    name: str
    default: str
    """Default as a user would type it; empty where there is none."""
    parse: Callable[[str], Any]
    metavar: str
    help: str
    group: str

    @property
    def default_value(self) -> Any:
        return self.parse(self.default)

    @property
    def environment(self) -> str:
        return "GPU_EXPORTER_" + re.sub(r"[.-]", "_", self.name).upper()

    @property
    def switch(self) -> bool:
        """Return whether it is set by `--name` and `--no-name` rather than by a value."""
        return self.parse is boolean

    @property
    def mapping(self) -> bool:
        """Return whether the configuration file may hold a mapping for it."""
        return isinstance(self.parse, Pairs)

    @property
    def flag(self) -> str:
        return f"--[no-]{self.name}" if self.switch else f"--{self.name}"

    @property
    def shown_default(self) -> str:
        """The default as help and reference show it."""
        return ", ".join(self.default.split(",")) if self.parse is names or self.mapping else self.default


@dataclass(frozen=True, slots=True)
class _Section:
    """A dataclass of options below the name of its field, or below `prefix`."""

    kind: type[Any]
    prefix: str | None
    group: str


@dataclass(frozen=True, slots=True)
class _Positional:
    """The one argument without a flag."""


def option(
    default: str,
    parse: Callable[[str], T],
    help: str,
    *,
    metavar: str = "",
    group: str = "",
    name: str | None = None,
) -> T:
    """Declare an option.

    `name` replaces that of the field; an empty one is the name of the section itself. One that begins with `/` does
    without the names of the sections: an option has one name in every command.
    """
    declared = Option("", default, parse, metavar, help, group)
    made: T = field(default_factory=lambda: parse(default), metadata={_DECLARED: declared, _NAME: name})
    return made


def section(kind: type[T], prefix: str | None = None, *, group: str = "") -> T:
    """Include another dataclass of options; `prefix` replaces the field's name, an empty one adds none."""
    made: T = field(default_factory=kind, metadata={_DECLARED: _Section(kind, prefix, group)})
    return made


def positional() -> str:
    """Declare the field of the argument without a flag."""
    made: str = field(default="", metadata={_DECLARED: _Positional()})
    return made


def options_of(kind: type[Any]) -> tuple[Option, ...]:
    """Return the options that a dataclass declares, those of its sections included, in their order."""
    return tuple(_find_options(kind, "", ""))


def _find_options(kind: type[Any], prefix: str, group: str) -> Iterator[Option]:
    for _, declared in _declared_fields(kind, prefix):
        if isinstance(declared, Option):
            yield replace(declared, group=declared.group or group)
        elif isinstance(declared, _Section):
            yield from _find_options(declared.kind, declared.prefix or "", declared.group or group)


def build(kind: type[T], values: Mapping[str, Any], argument: str = "", prefix: str = "") -> T:
    """Return the dataclass with the values by option name; what has none keeps its default."""
    given: dict[str, Any] = {}
    for attribute, declared in _declared_fields(kind, prefix):
        if isinstance(declared, _Section):
            given[attribute] = build(declared.kind, values, argument, declared.prefix or "")
        elif isinstance(declared, _Positional):
            given[attribute] = argument
        elif declared.name in values:
            given[attribute] = values[declared.name]
    return kind(**given)


def values_of(config: object, prefix: str = "") -> Mapping[str, Any]:
    """Return the values of a dataclass of options by option name."""
    found: dict[str, Any] = {}
    for attribute, declared in _declared_fields(type(config), prefix):
        value = getattr(config, attribute)
        if isinstance(declared, _Section):
            found.update(values_of(value, declared.prefix or ""))
        elif isinstance(declared, Option):
            found[declared.name] = value
    return found


def _declared_fields(kind: type[Any], prefix: str) -> Iterator[tuple[str, Option | _Section | _Positional]]:
    """Yield each field's name and what it declares, with whole names."""
    for item in fields(kind):
        declared = item.metadata.get(_DECLARED)
        own = item.name.replace("_", "-")
        if isinstance(declared, Option):
            name = item.metadata[_NAME]
            yield item.name, replace(declared, name=_join_names(prefix, own if name is None else name))
        elif isinstance(declared, _Section):
            yield (
                item.name,
                replace(declared, prefix=_join_names(prefix, own if declared.prefix is None else declared.prefix)),
            )
        elif isinstance(declared, _Positional):
            yield item.name, declared


def _join_names(prefix: str, name: str) -> str:
    return name[1:] if name.startswith("/") else ".".join(filter(None, (prefix, name)))
