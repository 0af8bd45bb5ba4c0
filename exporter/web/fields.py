"""Reading the web configuration file: every complaint is one line that names file and key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from exporter.config.option import ConfigError

OPTION = "--web.config.file"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Section:
    """One mapping of the file; `name` is its key with a dot behind it, empty for the file itself."""

    path: Path
    name: str
    values: Mapping[str, Any]

    @staticmethod
    def of(path: Path, name: str, content: object) -> Section:
        if not isinstance(content, dict):
            where = name.removesuffix(".") or "the file"
            raise ConfigError(f"{OPTION} {path}: {where}: expected a mapping, got {type(content).__name__}")
        return Section(path, name, cast("Mapping[str, Any]", content))

    def section(self, key: str) -> Section:
        content = self.values.get(key)
        return Section.of(self.path, f"{self.name}{key}.", {} if content is None else content)

    def only(self, *known: str) -> None:
        """Refuse every other key."""
        for key in sorted(map(str, set(self.values) - set(known))):
            raise ConfigError(
                f"{OPTION} {self.path}: unknown key {self.name}{key}: expected some of {', '.join(known)}"
            )

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.wrong(key, f"expected a text, got {type(value).__name__}")
        return value or ""

    def boolean(self, key: str, *, default: bool) -> bool:
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, f"expected true or false, got {value!r}")
        return value

    def texts(self, key: str) -> Sequence[str]:
        content: Any = self.values.get(key)
        values: list[Any] = [] if content is None else content if isinstance(content, list) else [content, None]  # pyright: ignore[reportUnknownVariableType]
        if not all(isinstance(value, str) for value in values):
            raise self.wrong(key, "expected a list of texts")
        return values

    def one_of(self, key: str, known: Mapping[str, T], default: str) -> T:
        value = self.text(key) or default
        if value not in known:
            raise self.wrong(key, f"expected one of {', '.join(known)}, got {value!r}")
        return known[value]

    def file(self, key: str) -> Path | None:
        """Relative to the folder of the configuration file."""
        value = self.text(key)
        if "\0" in value:
            raise self.wrong(key, "expected the name of a file")
        return self.path.parent / value if value else None

    def wrong(self, key: str, why: str) -> ConfigError:
        return ConfigError(f"{OPTION} {self.path}: {self.name}{key}: {why}")


def file_signatures(files: Iterable[Path]) -> tuple[tuple[int, int, int], ...]:
    """Changes whenever one of the files does."""

    def stamp(path: Path) -> tuple[int, int, int]:
        try:
            status = path.stat()
        except OSError:
            return (0, 0, 0)
        return (status.st_mtime_ns, status.st_size, status.st_ino)

    return tuple(stamp(path) for path in files)
