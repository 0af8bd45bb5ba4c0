"""How much later jobs start and end with the kit: run by `make bench` on a real Slurm, in pairs with and without it.

    python -m tests.bench.slurm_latency [PAIRS]

Each pair is two jobs on all GPUs, one after the other in an order that changes: one with prolog, epilog and the
controller's hook as docs/how-to/slurm.md has them, one with scripts that do nothing in their place. What the rest of
the machine does meets both alike, so the difference within a pair is the kit's.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.attribution_kit.slurm_cluster import LACKING, SlurmCluster

KIT = Path(__file__).resolve().parents[2] / "deploy/slurm"
PAIRS = 30
_HOOK = "#!/bin/sh\nexec timeout -k 1 5 {kit}/{hook} {work}/gpumap\n"
_NOTHING = "#!/bin/sh\nexit 0\n"


class Took(NamedTuple):
    """Seconds from srun to the program, and from the program's end until the node is free again."""

    start: float
    end: float


class Cluster(SlurmCluster):
    """A Slurm whose hooks can be changed between jobs."""

    def _configure(self) -> None:
        super()._configure()
        (self.work / "ended").mkdir()
        self.use(self.hooks(with_kit=False))
        with (self.work / "etc/slurm.conf").open("a") as conf:
            conf.write(f"EpilogSlurmctld={self.work}/etc/epilogctld\n")

    def hooks(self, *, with_kit: bool) -> Mapping[str, str]:
        if not with_kit:
            return dict.fromkeys(("prolog.sh", "epilog.sh", "epilogctld"), _NOTHING)
        controller = (KIT / "epilogctld").read_text().replace("/var/lib/gpu-exporter-summaries", str(self.work))
        hooks = {f"{hook}.sh": _HOOK.format(kit=KIT, hook=hook, work=self.work) for hook in ("prolog", "epilog")}
        return {**hooks, "epilogctld": controller}

    def use(self, hooks: Mapping[str, str]) -> None:
        for name, text in hooks.items():
            new = self.work / f"etc/.{name}"
            new.write_text(text)
            new.chmod(0o755)
            new.replace(self.work / "etc" / name)


def job(cluster: Cluster) -> Took:
    program = "date +%s.%N"
    asked = time.time()
    done = subprocess.run(
        ["srun", "-Q", "--gres=gpu:8", "--exclusive", "sh", "-c", f"{program}; {program}"],
        env=cluster.environment, cwd=cluster.work, capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    began, ended = map(float, done.stdout.split())
    while cluster.run("squeue", "-h").strip():
        pass
    return Took(began - asked, time.time() - ended)


def measured(cluster: Cluster, pairs: int) -> tuple[list[Took], list[Took]]:
    """Jobs without the kit, and with it."""
    found: dict[bool, list[Took]] = {False: [], True: []}
    job(cluster)
    for pair in range(pairs):
        for with_kit in (pair % 2 == 0, pair % 2 == 1):
            cluster.use(cluster.hooks(with_kit=with_kit))
            found[with_kit].append(job(cluster))
    return found[False], found[True]


def main() -> int:
    if LACKING:
        sys.stdout.write(f"left out: {LACKING}\n")
        return 0
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    with Cluster("linuxproc") as cluster:
        without, with_kit = measured(cluster, pairs)
        noted = len(list((cluster.work / "ended").iterdir()))
    assert noted == pairs, f"{noted} jobs of {pairs} with the kit were noted by the controller's hook"
    sys.stdout.write(f"{pairs} pairs of jobs on 8 GPUs, in milliseconds\n")
    for place, name in enumerate(("start", "end")):
        bare, kit = ([took[place] * 1000 for took in each] for each in (without, with_kit))
        later = [ours - theirs for ours, theirs in zip(kit, bare, strict=True)]
        error = statistics.stdev(later) / len(later) ** 0.5
        sys.stdout.write(
            f"  {name:<6} without {statistics.median(bare):6.0f}, with {statistics.median(kit):6.0f}; within a pair"
            f" {statistics.median(later):+.0f} median, {statistics.mean(later):+.0f} mean ± {error:.0f}\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
