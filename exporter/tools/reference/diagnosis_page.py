"""The tables in docs/diagnosis.md, made from the rules of the ledger."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from exporter.ledger.rule import Certainty, Rule
from exporter.ledger.states import RULES, SPLITS

BEGIN = "<!-- Made from exporter/ledger/states.py by `make diagnosis`. Do not edit up to the end mark. -->"
END = "<!-- End of what is made. -->"


_LOST = {
    Certainty.NONE: "no",
    Certainty.POSSIBLE: "possibly",
    Certainty.LIKELY: "likely",
    Certainty.CERTAIN: "certainly",
}


def tables() -> str:
    """The states, what distinguishes them, and where the numbers that decide are."""
    return "\n".join(
        (
            *_table(("State", "Who acts", "Lost?", "What it means", "What to do"), map(_state, RULES)),
            "",
            *_table(("State", "Signature", "Thresholds", "Signals it needs"), map(_signature, RULES)),
            "",
            "Thresholds and their defaults: [options.md](options.md#ledger).",
        )
    )


def renewed(text: str) -> str:
    """The page with its made part made anew. Raises ValueError without the two marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page lacks the marks between which the tables stand")
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


def _state(rule: Rule) -> Sequence[str]:
    full = f" ({rule.advice_when_full})" if rule.advice_when_full else ""
    return (f"`{rule.state}`", rule.audience, _LOST[rule.certainty], rule.meaning, rule.advice + full)


def _signature(rule: Rule) -> Sequence[str]:
    needs = " or ".join(" and ".join(f"`{name}`" for name in each) for each in rule.needs) if rule in SPLITS else ""
    return (f"`{rule.state}`", rule.signature, ", ".join(f"`{_flag(name)}`" for name in rule.thresholds), needs)


def _flag(name: str) -> str:
    return name.replace("_", "-")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(renewed(page.read_text()))
