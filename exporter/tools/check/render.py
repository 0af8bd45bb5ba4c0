"""A verdict as text for people, JSON for programs, and the one line that Nagios, Slurm and Kubernetes take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from exporter.core.printable import printable, printable_json
from exporter.faults.evaluate import Report
from exporter.faults.rule import Verdict, merge_findings
from exporter.tools.report.terminal import Colors

_NAGIOS = {Verdict.OK: "OK", Verdict.DEGRADED: "WARNING", Verdict.FAILED: "CRITICAL", Verdict.UNKNOWN: "UNKNOWN"}
_COLOURS = {Verdict.OK: "green", Verdict.DEGRADED: "yellow", Verdict.FAILED: "red", Verdict.UNKNOWN: "magenta"}


def short(report: Report, worst: Verdict) -> str:
    """`GPU3 lost (XID 79), GPU5 ECC error`: what is at least so bad, by GPU, for a place with little room."""
    words: dict[str, list[str]] = {}
    for finding in report.findings:
        if finding.verdict >= worst and finding.short not in words.setdefault(finding.gpu, []):
            words[finding.gpu].append(finding.short)
    named: list[str] = []
    for gpu, found in sorted(words.items(), key=lambda each: int(each[0] or 1_000_000)):
        first, *more = sorted(found, key=lambda word: not word.startswith("lost"))
        text = first + (f" ({', '.join(more)})" if more else "")
        named.append(f"GPU{gpu} {text}" if gpu else text)
    return printable(", ".join(named))


def text(report: Report, paint: Colors) -> str:
    word = paint(report.verdict.word, _COLOURS[report.verdict], "bold")
    lines = [f"{word}{_simulation_note(report)}: {printable(report.remark or report.counted)}"]
    for finding in merge_findings(report.findings):
        lines.append(
            f"  {paint(f'{finding.verdict.word:<8}', _COLOURS[finding.verdict])}  {printable(finding.summary)}"
        )
        lines.append(f"            {printable(finding.action)}")
    pages = sorted({f"/runbooks/{finding.runbook}" for finding in report.findings if finding.runbook})
    lines += [f"Runbooks on the exporter's status page: {' '.join(pages)}"] if pages else []
    return "\n".join(lines) + "\n"


def _simulation_note(report: Report) -> str:
    return " (simulated)" if report.simulated else ""


def nagios(report: Report, _paint: Colors) -> str:
    """One line of the Nagios plugin guidelines; a `|` would begin performance data."""
    counts = Counter(finding.verdict for finding in report.findings)
    data = f"gpus={report.gpus} degraded={counts[Verdict.DEGRADED]} failed={counts[Verdict.FAILED]}"
    summary = printable(report.summary).replace("|", "/")
    return f"GPU {_NAGIOS[report.verdict]}{_simulation_note(report)} - {summary} | {data}\n"


def npd(report: Report, _paint: Colors) -> str:
    """One line for node-problem-detector, which cuts it after 80 characters by default."""
    return f"{_simulation_note(report)} {printable(report.summary)}".lstrip() + "\n"


def json_(report: Report, _paint: Colors) -> str:
    content = {
        "verdict": report.verdict.word,
        "summary": report.summary,
        "gpus": report.gpus,
        "models": report.models,
        "simulated": report.simulated,
        "findings": [
            {
                "rule": finding.rule,
                "verdict": finding.verdict.word,
                "gpu": int(finding.gpu) if finding.gpu else None,
                "uuid": finding.uuid or None,
                "reason": finding.reason,
                "action": finding.action,
            }
            for finding in report.findings
        ],
    }
    return printable_json(content, 2) + "\n"


FORMATS: Mapping[str, Callable[[Report, Colors], str]] = {"text": text, "json": json_, "nagios": nagios, "npd": npd}
