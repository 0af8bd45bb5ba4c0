"""Manual pages, made from the same tables as `--help`: `python -m exporter.tools.reference.manual FOLDER`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from exporter import REPOSITORY, __version__
from exporter.commands import COMMANDS, page
from exporter.config.command_line import Page
from exporter.config.option import Option
from exporter.tools.reference.shell_completion import commands

PAGES: Mapping[str, Page] = {name: page(name) for name, command in COMMANDS.items() if command.config}


def manuals() -> dict[str, str]:
    """File name and text of each page."""
    tables = commands()
    return {f"{shown.prog.replace(' ', '-')}.1": manual(shown, tables[command]) for command, shown in PAGES.items()}


def manual(shown: Page, options: Sequence[Option]) -> str:
    """One page in the man macros."""
    title = shown.prog.replace(" ", "-")
    lines = [
        f'.TH {title.upper()} 1 "" "gpu-exporter {__version__}" "User Commands"',
        ".SH NAME",
        f"{_escape_roff(title)} \\- {_escape_roff(shown.description.rstrip('.'))}",
        ".SH SYNOPSIS",
        _escape_roff(shown.usage),
        ".SH DESCRIPTION",
        _escape_roff(shown.description),
        "Each option is also an environment variable (GPU_EXPORTER_ and its name in capitals, with _ for . and \\-)",
        "and a key of the YAML file of \\-\\-config.file; a flag wins over the environment, that over the file.",
    ]
    if shown.commands:
        lines.append(".SH COMMANDS")
    for name, about in shown.commands.items():
        lines += [".TP", f".B {_escape_roff(name)}", _escape_roff(about)]
    group = ""
    for option in options:
        if option.group != group:
            group = option.group
            lines.append(f".SH {group.upper()}")
        flag = f"--{option.name}, --no-{option.name}" if option.switch else f"--{option.name} {option.metavar}"
        default = f" Default: {option.shown_default}." if option.shown_default else ""
        lines += [".TP", f".B {_escape_roff(flag)}", _escape_roff(option.help + default)]
    if shown.epilog:
        lines += [".SH NOTES", ".nf", *(_escape_roff(line) for line in shown.epilog.split("\n")), ".fi"]
    lines += [".SH SEE ALSO", _escape_roff(f"{REPOSITORY}")]
    return "\n".join(lines) + "\n"


def _escape_roff(text: str) -> str:
    """Return the text without what roff would read as its own."""
    safe = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in manuals().items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
