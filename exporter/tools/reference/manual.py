"""Manual pages, made from the same tables as `--help`: `python -m exporter.tools.reference.manual FOLDER`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from exporter import __version__
from exporter.config.command_line import COMMANDS, DAEMON, Page
from exporter.config.option import Option, default_of
from exporter.core.project import REPOSITORY
from exporter.tools.reference.shell_completion import commands

PAGES: Mapping[str, Page] = {
    name: DAEMON if name == "serve" else importlib.import_module(command.module).PAGE
    for name, command in COMMANDS.items()
    if name != "completion"
}


def manuals() -> dict[str, str]:
    """File name and text of each page."""
    tables = commands()
    return {f"{_name(command)}.1": manual(page, tables[command]) for command, page in PAGES.items()}


def _name(command: str) -> str:
    return "gpu-exporter" if command == "serve" else f"gpu-exporter-{command}"


def manual(page: Page, options: Sequence[Option]) -> str:
    """One page in the man macros."""
    title = page.prog.replace(" ", "-")
    lines = [
        f'.TH {title.upper()} 1 "" "gpu-exporter {__version__}" "User Commands"',
        ".SH NAME",
        f"{_plain(title)} \\- {_plain(page.description.rstrip('.'))}",
        ".SH SYNOPSIS",
        _plain(page.usage),
        ".SH DESCRIPTION",
        _plain(page.description),
        "Each option is also an environment variable (GPU_EXPORTER_ and its name in capitals, with _ for . and \\-)",
        "and a key of the YAML file of \\-\\-config.file; a flag wins over the environment, that over the file.",
    ]
    if page.commands:
        lines.append(".SH COMMANDS")
    for name, command in page.commands.items():
        lines += [".TP", f".B {_plain(name)}", _plain(command.about)]
    group = ""
    for option in options:
        if option.group != group:
            group = option.group
            lines.append(f".SH {group.upper()}")
        lines += _option(option)
    if page.epilog:
        lines += [".SH NOTES", ".nf", *(_plain(line) for line in page.epilog.split("\n")), ".fi"]
    lines += [".SH SEE ALSO", _plain(f"{REPOSITORY}")]
    return "\n".join(lines) + "\n"


def _option(option: Option) -> list[str]:
    flag = f"--{option.name}, --no-{option.name}" if option.switch else f"--{option.name} {option.metavar}"
    default = default_of(option)
    return [".TP", f".B {_plain(flag)}", _plain(option.help + (f" Default: {default}." if default else ""))]


def _plain(text: str) -> str:
    """Without what roff would read as its own."""
    safe = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in manuals().items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
