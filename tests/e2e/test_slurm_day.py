"""A compressed day of 200 mixed jobs on a real Slurm of four nodes, with killed slurmstepds and a lost slurmd.

Counters, accounting, summaries and the digest are compared with the times of the prologs and epilogs, by user: within
1 %, and what a compressed day enlarges: five seconds for each GPU that was allocated when the node was lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import requests

from exporter.accounting.store import NAME, rows_after
from exporter.tools.report.accounting.collector import collect
from exporter.tools.report.accounting.command import TOLERANCE
from exporter.tools.report.accounting.database import Database, SchedulerJob
from exporter.tools.report.accounting.sacct import Sacct
from tests.attribution_kit.slurm_cluster import LACKING
from tests.attribution_kit.slurm_kit import ROOT
from tests.attribution_kit.slurm_pair import PairKit
from tests.exporter_process import Running, exporter, parse
from tests.stack import poll, prometheus

pytestmark = [
    pytest.mark.deep,
    pytest.mark.xdist_group("slurm"),
    pytest.mark.skipif(bool(LACKING), reason=LACKING),
]

JOBS, USERS = 200, ("root", "mail", "daemon", "bin", "games")
MAX_DIFFERENCE = 0.01
RECORDED_SECONDS = 45.0
DATABASE = "collected.sqlite"
LATEST_END = 60.0
"""Seconds for which a lost allocation may stay."""
ASKED_AGAIN = 5.0
"""Seconds in which slurmctld is asked again about a lost slurmd's jobs, on a busy machine."""
WORKED = 30.0
"""Seconds for which a node has had jobs when it is lost."""
_HOOK = """\
#!/bin/sh
gpus=$(echo "$SLURM_JOB_GPUS" | awk -F, '{{ print $1 == "" ? 0 : NF }}')
echo "$(date +%s.%N) $SLURM_JOB_ID $SLURMD_NODENAME $gpus $SLURM_JOB_USER" >> {work}/{name}s
exec {kit}/{name} {work}/gpumap-$SLURMD_NODENAME
"""


class DayKit(PairKit):
    """Four nodes whose hooks write down each begin and end."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes = tuple(f"{self.node}{letter}" for letter in ("", "b", "c", "d"))

    def _configure(self) -> None:
        super()._configure()
        for name in ("prolog", "epilog"):
            text = _HOOK.format(work=self.work, kit=ROOT / "deploy/slurm", name=name)
            (self.work / f"etc/{name}.sh").write_text(text)
        conf = self.work / "etc/slurm.conf"
        lines = conf.read_text().splitlines()
        conf.write_text("\n".join(line for line in lines if not line.startswith("HealthCheck")) + "\n")


Times = Mapping[tuple[str, str], Sequence[float]]
"""Moments by job and node."""


def _hooks(kit: DayKit, name: str) -> tuple[Times, Mapping[str, tuple[int, str]]]:
    """Return the moments, and GPUs per node and user of each job."""
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    jobs: dict[str, tuple[int, str]] = {}
    for line in (kit.work / f"{name}s").read_text().splitlines():
        at, job, node, gpus, user = line.split()
        times[job, node].append(float(at))
        jobs[job] = int(gpus), user
    return times, jobs


class Truth(NamedTuple):
    """GPU seconds by the hooks."""

    by_user: Mapping[str, float]
    by_job: Mapping[str, float]
    lost: Mapping[str, float]
    """GPUs by user on the lost node when it was lost."""


def _truth(kit: DayKit, lost: str, lost_at: float) -> Truth | None:
    """Return the truth; None while an epilog is missing. On the lost node, allocations end when Slurm gave it up."""
    begins, jobs = _hooks(kit, "prolog")
    ends, _ = _hooks(kit, "epilog")
    by_user, by_job, lost_gpus = (defaultdict[str, float](float) for _ in range(3))
    for (job, node), began in begins.items():
        gpus, user = jobs[job]
        for at in began:
            later = [end for end in ends.get((job, node), ()) if end > at]
            if node == lost and at < lost_at:
                lost_gpus[user] += gpus * (not later or min(later) > lost_at)
                later = [min([lost_at, *later])]
            if not later:
                return None
            by_user[user] += gpus * (min(later) - at)
            by_job[job] += gpus * (min(later) - at)
    return Truth(by_user, by_job, lost_gpus)


@contextlib.contextmanager
def _exporter(kit: DayKit, node: str, folder: Path) -> Iterator[Running]:
    own = folder / node
    (own / "state").mkdir(parents=True)
    options = (
        *("--path.cgroupfs", str(kit.work / "etc")),  # no cgroups: each node would see those of all nodes
        *("--sample.interval", "500ms", "--attribution.slurm", "on", "--state.dir", str(own / "state")),
        *("--attribution.slurm.mapping-dir", str(kit.mapping(node))),
        *("--slurm.scontrol", str(kit.scontrol_of(node))),
        *("--attribution.slurm.gres-conf", f"{kit.work}/etc/gres.conf"),
    )
    with exporter(own, *options, environment={**os.environ, **kit.driver, "SLURMD_NODENAME": node}) as running:
        yield running


def _submit(kit: DayKit, draw: random.Random, count: int) -> None:
    """Submit jobs of 5 to 60 s: single, of several GPUs, of two nodes, arrays, heterogeneous, without GPUs.

    Their time limit ends a job whose start was lost on its way to slurmd.
    """
    left = count
    while left > 0:
        kind = draw.choices(("one", "several", "nodes", "array", "het", "cpu"), (40, 25, 10, 5, 5, 15))[0]
        program = ("--wrap", f"sleep {draw.randint(5, 60)}")
        options: dict[str, tuple[str, ...]] = {
            "one": ("--gres=gpu:1",),
            "several": (f"--gres=gpu:{draw.choice((2, 4, 8))}",),
            "nodes": ("-N2", "--gres=gpu:2"),
            "array": ("--array=1-4", "--gres=gpu:1"),
            "het": ("--gres=gpu:1", ":", "--gres=gpu:2"),
            "cpu": (),
        }
        command = ("sbatch", "-Q", "-o", "/dev/null", "-t", "3", f"--uid={draw.choice(USERS)}", "--requeue")
        kit.run(*command, *options[kind], *program)
        left -= {"array": 4, "het": 2}.get(kind, 1)


def _kill_stepds(job: str) -> None:
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "cmdline").read_bytes().startswith(f"slurmstepd: [{job}.".encode()):
                os.kill(int(folder.name), signal.SIGKILL)


def _running_on(kit: DayKit, node: str) -> Sequence[str]:
    return kit.run("squeue", "-h", "-t", "R", "-w", node, "-o", "%A %b").replace("gres/", "").splitlines()


def _works(kit: DayKit, node: str) -> bool:
    """Return whether the node has had jobs for a while, and has some on its GPUs."""
    began = [at for (_, name), times in _hooks(kit, "prolog")[0].items() if name == node for at in times]
    return time.time() - min(began, default=time.time()) > WORKED and any(
        "gpu" in line for line in _running_on(kit, node)
    )


def _crash(kit: DayKit, lost: str) -> float:
    """Kill the slurmstepds of a job, then the slurmd of a node. Return when Slurm gave the node up."""
    holders = [line.split()[0] for line in _running_on(kit, kit.nodes[0]) if "gpu" in line]
    for job in holders[:1]:
        _kill_stepds(job)
        kit.run("scancel", job)
    poll("jobs on the node that is lost", lambda: True if _works(kit, lost) else None, 240)
    kit.stop_daemon(f"slurmd-{lost}", signal.SIGKILL)
    kit.run("scontrol", "update", f"NodeName={lost}", "State=DOWN", "Reason=lost")
    return time.time()


def _let_go_on(kit: DayKit) -> bool | None:
    """Start requeued jobs, which wait for two minutes, at once. Return whether no job is left."""
    waiting = kit.run("squeue", "-h", "-t", "PD", "-o", "%A %r").splitlines()
    for job in (line.split()[0] for line in waiting if "BeginTime" in line):
        kit.run("scontrol", "update", f"JobId={job}", "StartTime=now", check=False)
    return None if kit.run("squeue", "-h").strip() else True


def _config(folder: Path, running: Sequence[Running]) -> Path:
    """Write Prometheus's files. All rules run every 10 s: a compressed day has no 15 minutes."""
    rules, config = folder / "rules.yaml", folder / "prometheus.yml"
    text = (ROOT / "deploy/prometheus/rules/gpu-recording.yaml").read_text()
    rules.write_text(re.sub("(?m)^  interval: .*$", "  interval: 10s", text))
    targets = [each.url.removeprefix("http://") for each in running]
    config.write_text(
        f"global: {{scrape_interval: 5s}}\nrule_files: [{rules}]\n"
        f"scrape_configs: [{{job_name: gpu, static_configs: [{{targets: {targets}}}]}}]\n"
    )
    return config


def _counters(running: Sequence[Running]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for each in running:
        metrics = parse(requests.get(f"{each.url}/metrics", timeout=10).text)
        for (name, labels), value in metrics.values.items():
            if name == "gpu_owner_gpu_seconds_total" and (user := dict(labels)["user"]):
                found[user] += value
    return dict(found)


def _report(url: str, kit: DayKit, *arguments: str, check: bool = True) -> str:
    command = [sys.executable, "-m", "exporter", *arguments, "--prometheus.url", url]
    done = subprocess.run(command, env=kit.commands, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout


def _digest(url: str, kit: DayKit) -> dict[str, float]:
    found = json.loads(_report(url, kit, "report", "--all", "--since", "40m", "--format", "json"))
    rows = found["tables"]["user"]
    return {row["labels"]["user"]: row["allocated"] * 3600 for row in rows if row["labels"].get("user")}


def _summaries(url: str, kit: DayKit, database: Path) -> dict[str, float]:
    arguments = ("--state.dir", str(kit.work), "--settle", "1ms", "--budget", "10m", "--comment", "none")
    for _ in range(4):
        # A busy machine's Prometheus may leave a job to the next round, of which the status tells.
        _report(url, kit, "summaries", *arguments, "--accounting.database", str(database), check=False)
        time.sleep(1)
    lines = _report(url, kit, "summaries", "--state.dir", str(kit.work), "--list", "--format", "json").splitlines()
    found: dict[str, float] = defaultdict(float)
    for each in map(json.loads, lines):
        found[each["user"]] += each["gpu_hours"] * 3600
    return dict(found)


def _play(kit: DayKit) -> Truth:
    """Run the day; its end is in all stores and rules."""
    draw, lost = random.Random(46), kit.nodes[-1]  # noqa: S311 - always the same day
    _submit(kit, draw, JOBS // 2)
    poll("jobs under way", lambda: True if (kit.work / "epilogs").exists() else None, 120)
    lost_at = _crash(kit, lost)
    _submit(kit, draw, JOBS // 2)
    poll("the time of a lost allocation", lambda: True if time.time() - lost_at > LATEST_END + 15 else None, 120, 1)
    kit.start_daemon(lost)
    kit.run("scontrol", "update", f"NodeName={lost}", "State=RESUME", check=False)
    poll("the end of all jobs", lambda: _let_go_on(kit), 1500, 1)
    truth = poll("the last epilogs", lambda: _truth(kit, lost, lost_at), 120)
    last = time.time()
    poll("the last round of stores and rules", lambda: True if time.time() - last > RECORDED_SECONDS else None, 120, 1)
    return truth


def _collected(kit: DayKit, folder: Path, truth: Truth) -> Mapping[str, float]:
    """Return the seconds of the accounting by user, of the rows of all nodes."""
    paths = {node: folder / node / "state" / NAME for node in kit.nodes}
    with contextlib.closing(Database(folder / DATABASE)) as database:
        collect(database, kit.nodes, lambda node, seq: json.loads(rows_after(paths[node], node, seq)), time.time)
        found: dict[str, float] = defaultdict(float)
        for job in truth.by_job:
            found[_hooks(kit, "prolog")[1][job][1]] += database.job(job, 0, time.time()).seconds
    return found


def _scheduler(kit: DayKit, folder: Path, truth: Truth) -> str:
    """Describe what slurmdbd has."""
    ended = Sacct(str(kit.wrapped("sacct"))).ended(time.time() - 7200, time.time())
    jobs = [
        SchedulerJob(job.raw_id, job.start, job.end, job.gpus) for job in ended if job.start and job.end and job.gpus
    ]
    seconds = sum(job.gpus * (job.end - job.start) for job in jobs)
    first: dict[str, float] = {}
    for (job, _), times in _hooks(kit, "prolog")[0].items():
        first[job] = min(times[0], first.get(job, times[0]))
    before = [
        first[job.id] - job.start for job in jobs if job.id in first and job.start <= first[job.id] < job.start + 5
    ]
    with contextlib.closing(Database(folder / DATABASE)) as database:
        found = database.compare(jobs, TOLERANCE)
    most = max((abs(each.nodes - each.scheduler) for each in found), default=0.0)
    return (
        f"{len(truth.by_job)} jobs, {sum(truth.by_job.values()):.0f} GPU s, {seconds:.0f} by slurmdbd,"
        f" whose start is {sum(before) / len(before):.2f} s before the prolog;"
        f" {len(found)} jobs are findings, by at most {most:.0f} GPU s"
    )


def test_day_with_a_crash_differs_from_the_hooks_by_one_percent_and_lost_gpus_alone(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    kit = DayKit()
    with kit, contextlib.ExitStack() as stack:
        running = [stack.enter_context(_exporter(kit, node, tmp_path)) for node in kit.nodes]
        url = stack.enter_context(prometheus(_config(tmp_path, running), tmp_path))
        truth = _play(kit)
        sources = (
            *(_counters(running), _collected(kit, tmp_path, truth)),
            *(_summaries(url, kit, tmp_path / DATABASE), _digest(url, kit)),
        )
        record_property("measured", _scheduler(kit, tmp_path, truth))

    record_property("measured", "user: hooks, counters, accounting, summaries, digest in GPU s")
    for user, seconds in sorted(truth.by_user.items()):
        found = [each.get(user, 0.0) for each in sources]
        shown = " ".join(f"{each:.1f} ({each / seconds - 1:+.2%})" for each in found) if seconds else ""
        record_property("measured", f"{user}: {seconds:.1f} {shown}, lost {truth.lost[user]:.0f} GPUs")
        extra = ASKED_AGAIN * truth.lost[user]
        allowed = MAX_DIFFERENCE * seconds
        assert all(-allowed <= each - seconds <= allowed + extra for each in found), (user, shown)
