"""A day of a Slurm controller with 10,000 ended jobs: what the summaries cost, and that every job has one.

    python -m tests.scale.slurm_day [JOBS]

A real Prometheus with the day behind it; sacct and sacctmgr are scripts. A tenth of the jobs has no GPU, a tenth was
not noted by the hook.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from exporter.tools.report.summaries.store import MADE, NO_GPUS, Store
from tests.e2e.backfill import Past
from tests.stack import prometheus

ROOT = Path(__file__).resolve().parents[2]
DAY, SCRAPE, ALLOCATED = 86400, 60, 300
_SACCT = """\
#!/bin/sh
for word; do case $last in -j) ids=$word ;; esac; last=$word; done
[ "$last" = AdminComment ] && exec cat {folder}/last
if [ -n "$ids" ]; then
    awk -F'|' -v ids=",$ids," 'index(ids, "," $1 ",")' {folder}/jobs
else
    cat {folder}/jobs
fi
"""
_SACCTMGR = """\
#!/bin/sh
echo "$5" >> {folder}/commented
echo "$7" | cut -d= -f2- > {folder}/last
"""


def backfill(folder: Path, jobs: int, now: float) -> None:
    """One GPU for five minutes each, spread over the day; what slurmdbd would print; what the hook noted."""
    past = Past()
    printed: list[str] = []
    (folder / "state/ended").mkdir(parents=True)
    for number in range(1, jobs + 1):
        began = now - DAY + (number * (DAY - 1200)) // jobs
        ended = began + ALLOCATED
        gpus = 0 if number % 10 == 0 else 1
        tres = f"billing=1,cpu=4,{'gres/gpu=1,' if gpus else ''}mem=16G,node=1"
        names = f"{number}|{number}|user{number % 50}|lab|gpu|normal|c"
        printed.append(f"{names}|COMPLETED|0:0|{began:.0f}|{ended:.0f}|{ALLOCATED}|60|1|4|05:00|1G|{tres}|")
        if number % 10 != 1:
            note = folder / f"state/ended/{number}"
            note.touch()
            os.utime(note, (ended, ended))
        if gpus:
            _series(past, number, began, ended)
    (folder / "jobs").write_text("\n".join(printed) + "\n")
    past.write(folder)


def _series(past: Past, number: int, began: float, ended: float) -> None:
    here = {"instance": f"n{number % 100}:9836", "node": f"n{number % 100}"}
    own = {**here, "workload": f"slurm:{number}", "slurm_job": str(number), "user": f"user{number % 50}"}
    times = [began + 10 + SCRAPE * scrape for scrape in range((ALLOCATED + 120) // SCRAPE + 1)]
    for state, share in (("computing", 0.6), ("wait_cpu", 0.4)):
        past.add(
            "gpu_workload_gpu_seconds_total",
            {**own, "state": state},
            [(t, share * (min(t, ended) - began)) for t in times],
        )
    past.add("gpu_workload_allocated_gpus", own, [(t, 1.0 if t < ended else 0.0) for t in times])
    past.add("gpu_workload_info", {**own, "job_name": "train"}, [(t, 1.0) for t in times])
    past.add("gpu_workload_resident_memory_bytes", own, [(t, 2.0**30) for t in times if t < ended])


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory(dir=ROOT / ".cache") as scratch:
        folder = Path(scratch)
        _apart(backfill, folder, jobs, time.time())
        for name, text in (("sacct", _SACCT), ("sacctmgr", _SACCTMGR)):
            (folder / name).write_text(text.format(folder=folder))
            (folder / name).chmod(0o755)
        (folder / "prometheus.yml").write_text("scrape_configs: []\n")
        with prometheus(folder / "prometheus.yml", folder) as url:
            measured = work(folder, url)
        report(folder, jobs, measured)


def _apart(function: Callable[..., None], *arguments: object) -> None:
    """In a process of its own: the kernel tells the peak of a parent as its children's where that is more."""
    process = multiprocessing.get_context("spawn").Process(target=function, args=arguments)
    process.start()
    process.join()
    assert process.exitcode == 0


def work(folder: Path, url: str) -> tuple[int, float, float]:
    """Rounds until nothing waits; their number, the seconds and the most MiB of one."""
    command = [sys.executable, "-m", "exporter", "summaries", "--state.dir", str(folder / "state")]
    command += ["--prometheus.url", url, "--slurm.sacct", str(folder / "sacct")]
    command += ["--slurm.sacctmgr", str(folder / "sacctmgr"), "--look-back", "2d", "--settle", "1s"]
    began, rounds, most = time.monotonic(), 0, 0
    while True:
        with (folder / "log").open("w+") as log:
            process = subprocess.Popen(command, cwd=ROOT, stderr=log)
            _, status, used = os.wait4(process.pid, 0)
            log.seek(0)
            said = log.read()
        assert status == 0, said
        rounds, most = rounds + 1, max(most, used.ru_maxrss)
        if " 0 waiting" in said:
            return rounds, time.monotonic() - began, most / 1024


def report(folder: Path, jobs: int, measured: tuple[int, float, float]) -> None:
    rounds, seconds, most = measured
    file = folder / "state/summaries.sqlite"
    store = Store(file)
    counts = store.counts()
    store.close()
    commented = Counter((folder / "commented").read_text().split())
    with_gpus = jobs - jobs // 10
    assert counts.get(MADE) == with_gpus, counts
    assert set(commented.values()) == {1}
    assert len(commented) == with_gpus
    sys.stdout.write(
        f"{jobs} jobs: {with_gpus} summaries, none twice, {counts.get(NO_GPUS, 0)} without GPUs; {rounds} rounds in"
        f" {seconds:.0f} s ({seconds / with_gpus * 1000:.0f} ms a job); at most {most:.0f} MiB;"
        f" {file.stat().st_size / 1e6:.1f} MB kept\n"
    )


if __name__ == "__main__":
    main()
