"""The tables in docs/check.md, made from the rules and options of the health check."""

from __future__ import annotations

import sys
from pathlib import Path

from exporter.config.option import Option
from exporter.faults.rules import RULES
from exporter.tools.check.options import OPTIONS

BEGIN = "<!-- Made from exporter/tools/check/ by `make check-page`. Do not edit up to the end mark. -->"
END = "<!-- End of what is made. -->"


def tables() -> str:
    rows = ["| Rule | Verdict | What it says | What to do | Source |", "|---|---|---|---|---|"]
    rows += [f"| `{r.name}` | {r.verdict.word} | {r.text} | {r.action} | {r.source} |" for r in RULES]
    rows += ["", "| Option | Default | Meaning |", "|---|---|---|"]
    rows += [option_row(option) for option in OPTIONS if option.name != "check.ignore"]
    rows.append("| `--check.ignore=RULES` |  | Names of rules of the table above to leave out, with commas. |")
    return "\n".join(rows)


def option_row(option: Option) -> str:
    flag = option.flag if option.switch else f"{option.flag}={option.metavar}"
    default = option.shown_default
    return f"| `{flag}` | {f'`{default}`' if default else ''} | {option.help} |"


def renewed(text: str, made: str, begin: str = BEGIN) -> str:
    """The page with its made part made anew. Raises ValueError without the two marks."""
    before, start, rest = text.partition(begin)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError("the page lacks the marks between which the tables stand")
    return f"{before}{begin}\n\n{made}\n\n{END}{after}"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(renewed(page.read_text(), tables()))
