"""The tables in docs/diagnosis.md, made from the rules of the ledger."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from exporter.ledger.states import SPLITS, TABLE
from exporter.ledger.states.state import Certainty, State

BEGIN = "<!-- Made from exporter/ledger/states/ by `make diagnosis`. Do not edit up to the end mark. -->"
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
            *_table(("State", "Who acts", "Lost?", "What it means", "What to do"), map(_state, TABLE)),
            "",
            *_table(("State", "Signature", "Thresholds", "Signals it needs"), map(_signature, TABLE)),
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


def _state(state: State) -> Sequence[str]:
    full = f" ({state.advice_when_full})" if state.advice_when_full else ""
    return (f"`{state.name}`", state.audience, _LOST[state.certainty], state.meaning, state.advice + full)


def _signature(state: State) -> Sequence[str]:
    needs = " or ".join(" and ".join(f"`{name}`" for name in each) for each in state.needs) if state in SPLITS else ""
    options = ", ".join(f"`{_flag(threshold.name)}`" for threshold in state.thresholds)
    return (f"`{state.name}`", state.signature, options, needs)


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
