"""Write the table of docs/report.md: `python -m exporter.tools.reference.report_page docs/report.md`."""

from __future__ import annotations

import sys
from pathlib import Path

from exporter.tools.reference.check_page import option_row, renewed
from exporter.tools.report.options import OPTIONS

BEGIN = "<!-- Made from exporter/tools/report/options.py by `make report-page`. Do not edit up to the end mark. -->"


def table() -> str:
    return "\n".join(["| Option | Default | Meaning |", "|---|---|---|", *(option_row(option) for option in OPTIONS)])


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(renewed(page.read_text(), table(), BEGIN))
