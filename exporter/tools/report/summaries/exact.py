"""GPU hours of a job from the accounting: exact also for a job that no scrape saw."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from exporter.tools.report.accounting.database import Database
from exporter.tools.report.client import NoDataError
from exporter.tools.report.model import JobReport, Name, Progress, Span
from exporter.tools.report.summary import Report


def exact(path: Path | None, report: Report) -> Report:
    """Return the report with the hours of the accounting's database; as it is without one."""
    if path is None:
        return report

    def corrected(job: str, back: float, until: float) -> JobReport:
        with contextlib.closing(Database(path)) as database:
            total = database.job(job, until - back, until)
        hours = {state: seconds / 3600 for state, seconds in total.states.items() if seconds}
        try:
            found = report(job, back, until)
        except NoDataError:
            if not hours:
                raise
            name = Name(f"Slurm job {job}", f"slurm:{job}", user=total.user, account=total.account)
            span = Span(total.start, total.end, total.end, truncated=False)
            found = JobReport(name, span, hours, (), (), Progress(), None)
        return replace(found, hours=hours) if hours else found

    return corrected
