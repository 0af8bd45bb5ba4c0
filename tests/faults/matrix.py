"""`make faults`: plant every fault of the plan on one GPU of two, and print what it did.

`python -m tests.faults.matrix [--functions A,B] [--quick]`. Status 1 where a cell is not clean.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.fake_nvml.build import build
from tests.faults.plan import Fault, of_function, of_values, pairs
from tests.faults.rig import HANGING, Rig, Seen
from tests.faults.verdict import Verdict, judge

DURING = (1.0, 1.0, 1.0, 31.0)
"""Seconds between the cycles while the fault is there: the readings of every 30 s meet it too."""
AFTER = (1.0, 1.0, 1.0, 1.0, 31.0)
"""And afterwards: what is read every 30 s is back with its next read."""
PROOFS = 3
"""More reads of every 30 s: three in a row must agree that a counter went back."""
VALUES = "values"
TRIES_OF_HANGS = 3
"""Where a call hangs, cycles have a deadline in this machine's time; one that is busy may make the other GPU late."""
_LATCHED = frozenset({"gpu_fault_timestamp_seconds"})
LONGEST_WAIT = 5.0
"""Seconds of this machine's time in which a GPU that was lost or hung must be back."""


def cell(rig: Rig, fault: Fault) -> Verdict:
    before = _steady(rig)
    rig.scenario.set(fault.values)
    during = [rig.step(seconds) for seconds in DURING]
    rig.scenario.remove(*fault.values)
    after = [rig.step(seconds) for seconds in AFTER]
    spacing = [*DURING, *AFTER]
    for _ in range(PROOFS if _missing(before, after[-1]) else 0):
        after.append(rig.step(31.0))
        spacing.append(31.0)
    deadline = time.monotonic() + LONGEST_WAIT
    while (fault.hangs or fault.loses) and _missing(before, after[-1]) and time.monotonic() < deadline:
        time.sleep(0.1)  # the driver is enumerated again by a thread with a clock of its own
        after.append(rig.step(6.0))
        spacing.append(6.0)
    return judge(before, during, after, spacing, hangs=fault.hangs)


def tried(rig: Rig, fault: Fault) -> tuple[Verdict, int]:
    """The last verdict on the fault, and how often it was planted."""
    most = TRIES_OF_HANGS if fault.hangs else 1
    verdict, tries = cell(rig, fault), 1
    while tries < most and not verdict.clean:
        verdict, tries = cell(rig, fault), tries + 1
    return verdict, tries


def _steady(rig: Rig) -> Seen:
    """The first cycle with the series of the one before, and with no fault that is still to be cured."""
    seen = rig.step()
    for _ in range(50):
        last, seen = seen, rig.step(6.0)
        if last.series.keys() == seen.series.keys() and not any(name in _LATCHED for name, _ in seen.series):
            break
    return seen


def _missing(before: Seen, now: Seen) -> bool:
    return bool(before.series.keys() - now.series.keys())


def functions(rig: Rig, log: Path) -> Sequence[str]:
    """The functions the exporter calls about a GPU, from the log of the fake library."""
    for _ in range(3):
        rig.step(31.0)
    return sorted({line.split()[0] for line in log.read_text().splitlines() if line.endswith("gpu0")})


def planned(names: Sequence[str], *, quick: bool, only: Sequence[str]) -> Sequence[Fault]:
    """The faults of this run, and a quarter as many pairs of them; by $SEED, where one is given."""
    seed = int(os.environ.get("SEED") or time.time())
    print(f"SEED={seed}", flush=True)  # noqa: T201
    chance = random.Random(seed)  # noqa: S311 - no secret
    of_functions = (fault for name in names if not only or name in only for fault in of_function(name))
    faults = [*of_functions, *(() if only and VALUES not in only else of_values(chance))]
    faults += pairs(faults, len(faults) // 4, chance)
    if quick:
        faults = [fault for index, fault in enumerate(faults) if not (fault.hangs or fault.loses) and index % 9 == 0]
    return sorted(faults, key=lambda fault: fault.hangs)


def run(scenario: Path, log: Path, *, quick: bool, only: Sequence[str]) -> int:
    rig = Rig(scenario)
    names = functions(rig, log)
    log.unlink()
    faults = planned(names, quick=quick, only=only)
    unclean: Counter[str] = Counter()
    again, without = 0, 0
    for fault in faults:
        if fault.hangs and rig.deadline != HANGING:
            rig.close()
            rig = Rig(scenario, HANGING)
            rig.step()
        verdict, tries = tried(rig, fault)
        again += tries - 1
        if not verdict.effect:
            without += 1
            print(f"{fault.where} {fault.what}: no effect", flush=True)  # noqa: T201
        for column, wrong in verdict.columns().items():
            if wrong:
                unclean[column] += 1
                print(f"{fault.where} {fault.what}: not {column}: {', '.join(dict.fromkeys(wrong))[:300]}", flush=True)  # noqa: T201
        log.unlink(missing_ok=True)
    rig.close()
    planted = f"{len(faults)} faults, {again} planted again"
    planted += f", {without} without an effect"
    print(f"{len(names)} functions, {planted}, {sum(unclean.values())} unclean {dict(unclean)}")  # noqa: T201
    return 1 if unclean else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--functions", default="", help=f"names of driver functions, with commas, and {VALUES!r}; default: all"
    )
    parser.add_argument("--quick", action="store_true", help="every ninth fault, none that hangs or loses the GPU")
    arguments = parser.parse_args()
    if "FAKE_NVML_SCENARIO" in os.environ:
        scenario, log = Path(os.environ["FAKE_NVML_SCENARIO"]), Path(os.environ["FAKE_NVML_LOG"])
        return run(scenario, log, quick=arguments.quick, only=[name for name in arguments.functions.split(",") if name])
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": str(build()),
            "FAKE_NVML_SCENARIO": f"{folder}/scenario",
            "FAKE_NVML_LOG": f"{folder}/calls",
        }
        command = [sys.executable, "-m", "tests.faults.matrix", *sys.argv[1:]]
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
