"""The generated part of a written page: `python -m exporter.tools.reference.sections docs/check.md`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from exporter.config.option import Option
from exporter.faults.rules import RULES
from exporter.ledger.states import SPLITS, TABLE
from exporter.ledger.states.state import Certainty
from exporter.tools.check.options import OPTIONS as CHECK_OPTIONS
from exporter.tools.report.definitions import DEFINITIONS, GOOD, HIGH, LOW, Totals, identity
from exporter.tools.report.options import OPTIONS as REPORT_OPTIONS

END = "<!-- End of what is made. -->"
_OPTION_HEAD = ("| Option | Default | Meaning |", "|---|---|---|")
_EXAMPLE = Totals("workload", 'workload="slurm:4711"', "workload", identity)
_LOST = {
    Certainty.NONE: "no",
    Certainty.POSSIBLE: "possibly",
    Certainty.LIKELY: "likely",
    Certainty.CERTAIN: "certainly",
}


@dataclass(frozen=True, slots=True)
class Section:
    """The generated lines of one page."""

    begin: str
    """The comment before them."""
    lines: Callable[[], Iterable[str]]

    def renewed(self, text: str) -> str:
        """Return the page with its generated part renewed. Raises ValueError without the two comments."""
        before, begin, rest = text.partition(self.begin)
        _, end, after = rest.partition(END)
        if not begin or not end:
            raise ValueError("the page lacks the markers between which the tables stand")
        made = "\n".join(self.lines())
        return f"{before}{begin}\n\n{made}\n\n{END}{after}"


def _check_section() -> Iterable[str]:
    """Yield the rules and options of the health check."""
    rules = ((f"`{r.name}`", r.verdict.word, r.text, r.action, r.source) for r in RULES)
    yield from _table_lines(("Rule", "Verdict", "Meaning", "What to do", "Source"), rules)
    yield from ("", *_OPTION_HEAD)
    yield from (_option_row(option) for option in CHECK_OPTIONS if option.name != "check.ignore")
    yield "| `--check.ignore=RULES` |  | Names of rules of the table above to leave out, with commas. |"


def _option_row(option: Option) -> str:
    flag = option.flag if option.switch else f"{option.flag}={option.metavar}"
    default = option.shown_default
    return table_row((f"`{flag}`", f"`{default}`" if default else "", option.help))


def definitions() -> str:
    """Return the definitions of the numbers on dashboards and reports, for the end of the metrics page."""
    head = ("Number", "What is counted", "Divided by", "Unobserved time")
    table = _table_lines(
        head, ((f"**{d.name}**", d.numerator, d.denominator or "-", d.unobserved) for d in DEFINITIONS)
    )
    examples = "\n\n".join(f"# {each.name}\n{each.promql(_EXAMPLE)}" for each in DEFINITIONS)
    paragraphs = (
        "\n".join(table),
        "[States](diagnosis.md#the-states), lost or not. Busy: `possible_spin`, `throttled_thermal` to `computing`.",
        f"In PromQL, of one job in the last minutes:\n\n```promql\n{examples}\n```",
        "\n".join(_NOTES),
    )
    return "\n\n".join(paragraphs)


_TARGETS = ", ".join(f"{name} {100 * target:.0f} %" for name, target in GOOD.items())
_NOTES = (
    "- **Range**: rules are evaluated once a minute. GPU hours of a day are `sum_over_time(x[1d]) / 60`.",
    "- **Price**: allocated GPU hours times the price of the model. A MIG instance or a shared GPU costs its fraction.",
    "- **Price of the waste**: price times wasted / allocated. It is absent if nothing was observed.",
    f"- **Target ratio**: utilization divided by the target of its class: {_TARGETS}.",
    f"- **Colours**: utilization is green from its target on, and red below {100 * LOW / HIGH:.0f} % of it.",
    "- **Unreachable GPU**: its counters stand still, so rates are 0. Add `and on (instance, uuid) gpu_up == 1`.",
    "- **Late GPU**: `gpu_up` is 0 at once for a lost GPU, and after `--sample.stale` for one that responds late.",
)


def _diagnosis_section() -> Iterable[str]:
    """Yield the states, their signatures, and where their thresholds are."""
    rows: list[Sequence[str]] = []
    signatures: list[Sequence[str]] = []
    for state in TABLE:
        full = f" ({state.advice_when_full})" if state.advice_when_full else ""
        lost = _LOST[state.certainty]
        rows.append((f"`{state.name}`", state.audience, lost, state.meaning, state.advice + full))
        signals = state.needs if state in SPLITS else ()
        needs = " or ".join(" and ".join(f"`{name}`" for name in each) for each in signals)
        options = ", ".join(f"`{threshold.name.replace('_', '-')}`" for threshold in state.thresholds)
        signatures.append((f"`{state.name}`", state.signature, options, needs))
    yield from _table_lines(("State", "Who acts", "Lost?", "What it means", "What to do"), rows)
    yield ""
    yield from _table_lines(("State", "Signature", "Thresholds", "Signals it needs"), signatures)
    yield from ("", "Thresholds and their defaults: [options.md](options.md#ledger).")


def _table_lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    yield table_row(head)
    yield f"|{'---|' * len(head)}"
    yield from map(table_row, rows)


def table_row(cells: Iterable[str]) -> str:
    """Return one row of a Markdown table. GitHub ends a cell at a bare bar, inside code too."""
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _begin_comment(source: str, target: str) -> str:
    return f"<!-- Made from {source} by `make {target}`. Do not edit up to the end mark. -->"


SECTIONS: Mapping[str, Section] = {
    "check.md": Section(_begin_comment("exporter/tools/check/", "check-page"), _check_section),
    "diagnosis.md": Section(_begin_comment("exporter/ledger/states/", "diagnosis"), _diagnosis_section),
    "report.md": Section(
        _begin_comment("exporter/tools/report/options.py", "report-page"),
        lambda: (*_OPTION_HEAD, *map(_option_row, REPORT_OPTIONS)),
    ),
}
"""Sections by name of the page in docs/."""


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(SECTIONS[page.name].renewed(page.read_text()))
