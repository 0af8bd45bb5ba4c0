"""Run the ledger over every shape and every kind of GPU, and print how much of what it says is true.

Run by `make truth`. Ends with 1 where a set of signatures misses the goal.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.truth.library import shapes
from tests.truth.matrix import HEADER, Score, merged, table
from tests.truth.observe import observe
from tests.truth.signatures import SETS, Signature

GOAL = 0.95

Job = tuple[int, str, Signature]


def score(job: Job) -> tuple[str, Score]:
    """Return the group of one shape, and its score."""
    number, group, signature = job
    rng = random.Random(f"{number} {group} {signature.name}")  # noqa: S311 - the same in each run
    _, maker = list(shapes())[number]
    found = Score()
    found.add(observe(maker(rng), signature, rng))
    return group, found


def run(signatures: Sequence[Signature], only: str, every: int, workers: int) -> dict[str, Score]:
    jobs: list[Job] = [
        (number, group, signature)
        for signature in signatures
        for number, (group, _) in enumerate(shapes())
        if only in group and number % every == 0
    ]
    by_group: dict[str, Score] = {}
    with ProcessPoolExecutor(workers) as pool:
        for group, each in pool.map(score, jobs, chunksize=4):
            by_group[group] = merged([by_group.get(group, Score()), each])
    return by_group


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="groups whose name contains this")
    parser.add_argument("--every", type=int, default=1, help="one shape of so many")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    met = True
    for name, signatures in SETS.items():
        groups = run(signatures, options.only, options.every, options.workers)
        lines = [f"\n== {name}", f"{'':36s}{HEADER}"]
        lines += [f"{group:36s}{each.line()}" for group, each in groups.items()]
        total = merged(list(groups.values()))
        sys.stdout.write("\n".join([*lines, f"{'all':36s}{total.line()}", "", table(total.confusion), ""]))
        sys.stdout.flush()
        met = met and total.right_part >= GOAL and not total.named_innocent and not total.innocents
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
