"""Write the table of docs/definitions.md: `python -m exporter.tools.reference.definitions_page PAGE`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from exporter.ledger.palette import look
from exporter.tools.reference.check_page import renewed
from exporter.tools.report.definitions import BUSY, DEFINITIONS, LOST, POSSIBLY_LOST, Definition, Totals, as_it_is

BEGIN = "<!-- Made from exporter/tools/report/definitions.py by `make definitions`. Do not edit up to the end mark. -->"
_EXAMPLE = Totals("workload", 'workload="slurm:4711"', "workload", as_it_is)


def table() -> str:
    rows = (_row(each) for each in DEFINITIONS)
    return "\n".join(
        (
            "| Number | What is counted | Divided by | Time that nobody could observe |",
            "|---|---|---|---|",
            *rows,
            "",
            f"Busy states: {_names(BUSY)}.",
            "",
            f"Lost states: {_names(LOST)}.",
            "",
            f"Possibly lost, which may be as it should: {_names(POSSIBLY_LOST)}.",
            "",
            "In PromQL, of one job in the last minutes:",
            "",
            "```promql",
            *(line for each in DEFINITIONS for line in (f"# {each.name}", each.promql(_EXAMPLE), "")),
            "```",
        )
    )


def _row(each: Definition) -> str:
    return f"| **{each.name}** | {each.numerator} | {each.denominator or '-'} | {each.unobserved} |"


def _names(states: Iterable[str]) -> str:
    return ", ".join(f"`{state}` ({look(state).title})" for state in states)


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(renewed(page.read_text(), table(), BEGIN))
