"""The table in docs/report.md, made from the options: `python -m exporter.reference.report_page docs/report.md`."""

from __future__ import annotations

import sys
from pathlib import Path

from exporter.reference.check_page import option_row, renewed
from exporter.report.options import OPTIONS

BEGIN = "<!-- Made from exporter/report/options.py by `make report-page`. Do not edit up to the end mark. -->"


def table() -> str:
    return "\n".join(["| Option | Default | Meaning |", "|---|---|---|", *(option_row(option) for option in OPTIONS)])


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(renewed(page.read_text(), table(), BEGIN))
