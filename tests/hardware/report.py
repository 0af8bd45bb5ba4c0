"""The report of a measurement, from the results of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.hardware.verdict import DIFFERS, cell, table, verdicts

Results = Mapping[str, Any]

_NO_LOADS = (
    "**No load ran (`--load none`).** This shows that the measurements run; nothing below says anything about a GPU.\n"
)


def render(header: Mapping[str, Any], parts: Mapping[str, Results], statuses: Mapping[str, str]) -> str:
    """Markdown. `statuses` says how each part ended."""
    lines = ["# Measured on hardware\n", table(("", ""), header.items())]
    lines += [_NO_LOADS] if header.get("loads") == "none" else []
    lines += ["## Parts\n", table(("Part", "Ended", "No load", "Load failed"), [
        (name, ended, parts.get(name, {}).get("loads_missing", ()),
         parts.get(name, {}).get("loads_failed", ())) for name, ended in statuses.items()
    ])]  # fmt: skip
    sections = {
        "comparisons": _comparisons,
        "collective": _collective,
        "diagnosis": _diagnosis,
        "cost": _cost,
        "answers": _answers,
    }
    for name, section in sections.items():
        lines += section(parts[name]) if name in parts else []
    return "\n".join(lines)


def differing(parts: Mapping[str, Results]) -> int:
    """How many verdicts say that something is not as it should be, and how many loads failed."""
    rows = [*parts.get("comparisons", {}).get("verdicts", ()), *parts.get("diagnosis", {}).get("programs", ())]
    rows += [parts.get("cost", {}).get("effect", {"outcome": ""})]
    failed = sum(len(part.get("loads_failed", ())) for part in parts.values())
    return failed + sum(row["outcome"] == DIFFERS for row in rows)


def _comparisons(found: Results) -> list[str]:
    return ["## Against a second source\n", f"nvidia-smi: {found.get('nvidia_smi')}.\n",
            verdicts(found.get("verdicts", ()))]  # fmt: skip


def _diagnosis(found: Results) -> list[str]:
    rows = [(row["program"], row["expected"], row["share"], _shares(row["shares"]), row["outcome"])
            for row in found.get("programs", ())]  # fmt: skip
    return ["## The ledger on real programs\n",
            table(("Program", "Expected", "Its share", "Shares of the time", "Verdict"), rows)]  # fmt: skip


def _collective(found: Results) -> list[str]:
    return ["## A rank that waits in NCCL's all-reduce\n", _rows(found.get("waits", ()))]


def _shares(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{state} {share:.2f}" for state, share in sorted(shares.items(), key=lambda item: -item[1]))


def _cost(found: Results) -> list[str]:
    pairs = [(number, pair.get("without"), pair.get("with")) for number, pair in enumerate(found.get("pairs", ()), 1)]
    used = [(row["cpu_percent"], row["resident_bytes"], row["cycle_seconds"]) for row in found.get("exporter", ())]
    return [
        "## What the exporter costs\n",
        f"CPU, median: {cell(found.get('cpu_percent'))} % of one core. Effect on the load, percent:\n",
        _rows([found["effect"]] if "effect" in found else []),
        table(("Pair", "Steps/s without", "Steps/s with"), pairs),
        table(("CPU %", "Resident bytes", "Last cycle, s"), used),
    ]


def _answers(found: Results) -> list[str]:
    lines = ["## The driver\n", f"{found.get('model')}, driver {found.get('driver')}.\n"]
    for state in ("idle", "dense"):
        lines += _of_state(found, state) if f"costs_{state}" in found else []
    lines += ["### PCIe counters\n", _rows(found.get("pcie_counters", ()))]
    lines += ["### Change of the utilization reading\n", f"{found.get('utilization_window')}\n"]
    processes = found.get("process_utilization", {})
    polls = f"{processes.get('polls_with_samples')} of {processes.get('polls')} polls had samples.\n"
    lines += ["### Utilization of two processes, half of the time each\n", polls, _rows(processes.get("processes", ()))]
    metrics = f"Metrics that answer: {found.get('gpm_metrics')}; refused: {found.get('gpm_refused')}\n"
    lines += ["### GPM\n", metrics, _rows(found.get("gpm_intervals", ()))]
    user = found.get("unprivileged", {})
    differing_calls = [(name, *told) for name, told in user.get("root_and_nobody_differ", {}).items()]
    lines += ["### As an ordinary user\n", f"Asked {user.get('asked')}.\n",
              table(("Call", "root", "nobody"), differing_calls)]  # fmt: skip
    return lines


def _of_state(found: Results, state: str) -> list[str]:
    events = found.get(f"clock_events_{state}", {})
    return [
        f"### Cost of a call, {state} (µs)\n", _rows(found[f"costs_{state}"]),
        f"### Buffers of samples, {state}\n", _rows(found.get(f"samples_{state}", ())),
        f"### Counters of held-down clocks, {state}\n", f"Reasons in force: {events.get('reasons_in_force')}\n",
        _rows(events.get("fields", ())),
    ]  # fmt: skip


def _rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table of mappings, with a column for each key that any of them has."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return table(names, [[row.get(name) for name in names] for row in rows]) if rows else "Not measured.\n"
