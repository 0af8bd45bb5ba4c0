"""This exporter and nvitop-exporter side by side on one fake driver: CPU time and memory.

Run by `make bench`. The GPUs change every second. CPU times are of the processes, as the kernel counts them. Both
programs run at the same time, so their ratio holds on a busy machine too. Report figures of a quiet machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import requests

from tests.bench.load import environment, scenario, sleepers
from tests.exporter_process import ROOT
from tests.fake_nvml.scenario import Scenario
from tests.stack import free_port, poll

NVITOP = "nvitop-exporter==1.7.2"
WARM_SECONDS, IDLE_SECONDS, PAUSE_SECONDS = 15.0, 30.0, 0.5
RUNS, SCRAPES = 5, 20
"""A figure is the median of the runs. A run has so many scrapes of each program, in turn."""
_CPU_CLOCK = 2
"""CPUCLOCK_SCHED of the kernel: the CPU time of a process, with its threads that have ended."""


_FEW_SERIES = 100
"""A program that shows fewer has not read the GPUs yet."""
_SETTLE_SECONDS = 0.02
"""After an answer, until the CPU time of the scrape is read."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """Milliseconds until the answer and of CPU time, and the number of series."""

    milliseconds: float
    cpu: float
    series: int


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    pid: int
    url: str

    def cpu(self) -> float:
        """Return the seconds of CPU time that it has used."""
        return time.clock_gettime(~self.pid << 3 | _CPU_CLOCK)

    def resident_mib(self) -> float:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def scrape(self) -> Scrape:
        cpu, began = self.cpu(), time.perf_counter()
        page = requests.get(self.url, timeout=20).text
        seconds = time.perf_counter() - began
        time.sleep(_SETTLE_SECONDS)
        return Scrape(
            seconds * 1000, (self.cpu() - cpu) * 1000, sum(line[:1] not in {"#", ""} for line in page.splitlines())
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, help="a folder with another revision of this exporter, run beside them")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pids = stack.enter_context(sleepers(32))
        file = folder / "scenario"
        stack.enter_context(changing(Scenario(file, scenario(8, pids))))
        programs = [_started(stack, name, ROOT, command, environment(file)) for name, command in _commands().items()]
        if given.against:
            programs.append(_started(stack, "against", given.against, _ours(), environment(file)))
        for program in programs:
            poll(f"{program.name} answers", lambda program=program: _answers(program), 120)
        _measure(programs)
    return 0


def _ours() -> list[str]:
    quiet = ("--collectors.disable=xid", "--log.level", "error")
    return [sys.executable, "-m", "exporter", *quiet, "--web.listen-address", "127.0.0.1:{port}"]


def _commands() -> Mapping[str, list[str]]:
    other = ROOT / ".cache" / "rivals"
    if not (other / "bin" / "nvitop-exporter").exists():
        subprocess.run([sys.executable, "-m", "venv", other], check=True)
        subprocess.run([other / "bin" / "pip", "install", "-q", NVITOP], check=True)
    return {
        "gpu-exporter": _ours(),
        "nvitop-exporter": [str(other / "bin" / "nvitop-exporter"), "--bind-address", "127.0.0.1", "--port", "{port}"],
    }


def _started(stack: ExitStack, name: str, folder: Path, command: list[str], environment: Mapping[str, str]) -> Program:
    port = free_port()
    process = subprocess.Popen(
        [word.format(port=port) for word in command],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return Program(name, process.pid, f"http://127.0.0.1:{port}/metrics")


def _answers(program: Program) -> bool | None:
    try:
        return program.scrape().series > _FEW_SERIES or None
    except requests.RequestException:
        return None


@contextmanager
def changing(scenario: Scenario) -> Iterator[None]:
    """Give all GPUs another utilization and power each second."""
    ended = threading.Event()

    def change() -> None:
        for number in count():
            if ended.wait(1.0):
                return
            scenario.set({"gpu.utilization": 40 + number % 50, "gpu.power_mw": 350_000 + number % 50 * 1000})

    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _measure(programs: Sequence[Program]) -> None:
    time.sleep(WARM_SECONDS)
    began, before = time.monotonic(), [program.cpu() for program in programs]
    time.sleep(IDLE_SECONDS)
    seconds = time.monotonic() - began
    idle = [(program.cpu() - old) / seconds for program, old in zip(programs, before, strict=True)]
    runs = [_run(programs) for _ in range(RUNS)]
    figures = [_figures(share, [run[place] for run in runs]) for place, share in enumerate(idle)]
    sys.stdout.write(
        f"{'':16} {'idle':>8} {'p50':>9} {'p99':>9} {'CPU/scrape':>10} {'CPU/series':>10} {'RSS':>9} {'series':>7}\n"
    )
    for program, found in zip(programs, figures, strict=True):
        sys.stdout.write(
            f"{program.name:16} {found.idle:8.2%} {found.median:6.2f} ms {found.late:6.1f} ms {found.cpu:7.2f} ms "
            f"{found.cpu / found.series * 1000:7.2f} µs {program.resident_mib():5.1f} MiB {found.series:7}\n"
        )
    rival = figures[1]
    for program, found in zip(programs, figures, strict=True):
        per_series = found.cpu / found.series / (rival.cpu / rival.series)
        sys.stdout.write(
            f"{program.name}, times {programs[1].name}'s: idle {found.idle / rival.idle:.2f}, "
            f"median {found.median / rival.median:.2f}, "
            f"CPU a scrape {found.cpu / rival.cpu:.2f}, CPU a series {per_series:.2f}\n"
        )


@dataclass(frozen=True, slots=True)
class _Figures:
    """Of one program: times in milliseconds, `late` is the 99th percentile of a scrape."""

    idle: float
    median: float
    late: float
    cpu: float
    series: int


def _run(programs: Sequence[Program]) -> list[list[Scrape]]:
    """Return the scrapes of each program."""
    found: list[list[Scrape]] = [[] for _ in programs]
    for _ in range(SCRAPES):
        for program, scrapes in zip(programs, found, strict=True):
            scrapes.append(program.scrape())
        time.sleep(PAUSE_SECONDS)
    return found


def _figures(idle: float, runs: Sequence[Sequence[Scrape]]) -> _Figures:
    times = sorted(each.milliseconds for run in runs for each in run)
    return _Figures(
        idle,
        statistics.median(statistics.median(each.milliseconds for each in run) for run in runs),
        times[int(len(times) * 0.99)],
        statistics.median(statistics.fmean(each.cpu for each in run) for run in runs),
        runs[-1][-1].series,
    )


if __name__ == "__main__":
    sys.exit(main())
