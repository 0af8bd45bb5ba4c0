"""Replays a cluster with planted faults and says which were alerted: `python -m tests.replay.replay --hours 168`."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.replay.evaluate import Fired, evaluate, write
from tests.replay.plan import SLACK, Plan, Planted, make

START = 1_790_000_000 // 7200 * 7200


@dataclass(frozen=True, slots=True)
class Verdict:
    """`missed` are faults with the alerts they did not bring, `false` alerts that no fault explains."""

    plan: Plan
    fired: tuple[Fired, ...]
    missed: tuple[tuple[Planted, frozenset[str]], ...]
    false: tuple[Fired, ...]
    broken: tuple[tuple[Planted, str], ...] = ()
    """Faults with an alert that did not stand from their begin to their cure."""

    @property
    def text(self) -> str:
        planted, alerts = len(self.plan.planted), Counter(each.alert for each in self.fired)
        rows = "".join(f"  {name}: {count}\n" for name, count in sorted(alerts.items()))
        return (
            f"{len(self.plan.nodes) * 8} GPUs, {self.plan.hours:g} h: {planted} faults planted, "
            f"{planted - len(self.missed)} alerted as they must be, {len(self.missed)} missed; "
            f"{len(self.fired)} alerts, {len(self.false)} without a fault\n{rows}"
            + "".join(f"  MISSED {sorted(names)} of {each}\n" for each, names in self.missed)
            + "".join(f"  FALSE {each}\n" for each in self.false)
            + "".join(f"  NOT KEPT {name} of {each}\n" for each, name in self.broken)
        )


def judge(plan: Plan, fired: tuple[Fired, ...]) -> Verdict:
    def brought(fault: Planted) -> frozenset[str]:
        return frozenset(e.alert for e in fired if fault.explains(e.alert, e.labels, e.begin, e.end))

    missed = ((fault, fault.kind.must - brought(fault)) for fault in plan.planted)
    false = (
        each
        for each in fired
        if not any(fault.explains(each.alert, each.labels, each.begin, each.end) for fault in plan.planted)
    )
    broken = (
        (fault, name)
        for fault in plan.planted
        for name in fault.kind.kept
        if not _kept(
            plan, fault, [e for e in fired if e.alert == name and fault.explains(name, e.labels, e.begin, e.end)]
        )
    )
    return Verdict(plan, fired, tuple((fault, names) for fault, names in missed if names), tuple(false), tuple(broken))


def _kept(plan: Plan, fault: Planted, fired: Sequence[Fired]) -> bool:
    """Whether an alert stood from begin to cure and no longer; an uncorrectable error comes some time after its XID."""
    if not fired:
        return False
    begin, end, wait = min(e.begin for e in fired), max(e.end for e in fired), 2 * SLACK
    gaps = (later.begin - earlier.end for earlier, later in itertools.pairwise(sorted(fired, key=lambda e: e.begin)))
    whole = all(gap <= SLACK for gap in gaps)
    return whole and fault.at <= begin <= fault.at + wait and abs(end - plan.mended(fault)) <= SLACK


def replay(plan: Plan, folder: Path, interval: float, workers: int = 2) -> Verdict:
    write(plan, START, interval, folder, workers)
    return judge(plan, tuple(evaluate(plan, START, interval, folder)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--hours", type=float, default=168)
    parser.add_argument("--rounds", type=int, default=3, help="faults of each kind")
    parser.add_argument("--interval", type=float, default=120, help="seconds between samples")
    parser.add_argument("--workers", type=int, default=2, help="processes that record")
    parser.add_argument("--folder", type=Path, help="keep the recording here, and go on where an earlier run was cut")
    options = parser.parse_args()
    started = time.monotonic()
    plan = make(options.nodes, options.hours, options.rounds)
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        verdict = replay(plan, folder, options.interval, options.workers)
    sys.stdout.write(f"{verdict.text}in {time.monotonic() - started:.0f} s\n")
    return 1 if verdict.missed or verdict.false or verdict.broken else 0


if __name__ == "__main__":
    sys.exit(main())
