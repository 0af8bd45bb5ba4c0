"""This exporter and another one a registry has (nvitop-exporter), side by side on one fake driver: CPU time and memory.

Run by `make bench`. CPU times are of the processes, as the kernel counts them; both run in the same moments, so the
figures compare on a busy machine too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import requests

from tests.bench.load import environment, scenario, sleepers
from tests.exporter_process import ROOT
from tests.fake_nvml.scenario import Scenario
from tests.stack import free_port, poll

NVITOP = "nvitop-exporter==1.7.2"
WARM, IDLE, SCRAPED, EVERY = 15.0, 30.0, 60.0, 15.0
"""Seconds: until it is measured, with nobody scraping, with a scrape `EVERY` so many."""
SCRAPES, PAUSE = 40, 0.5
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    pid: int
    url: str

    def cpu(self) -> float:
        words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, words[11:15])) / _TICKS

    def resident_mib(self) -> float:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def scrape(self) -> tuple[float, str]:
        """Milliseconds, and the page."""
        began = time.perf_counter()
        page = requests.get(self.url, timeout=20).text
        return (time.perf_counter() - began) * 1000, page


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, help="a folder with another revision of this exporter, run beside them")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pids = stack.enter_context(sleepers(32))
        file = folder / "scenario"
        Scenario(file, scenario(8, pids))
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
        return "gpu" in program.scrape()[1] or None
    except requests.RequestException:
        return None


def _shares(programs: Sequence[Program], during: Callable[[], None]) -> Sequence[float]:
    """CPU time of each, as a share of one core."""
    began, before = time.monotonic(), [program.cpu() for program in programs]
    during()
    seconds = time.monotonic() - began
    return [(program.cpu() - old) / seconds for program, old in zip(programs, before, strict=True)]


def _scraped(programs: Sequence[Program]) -> None:
    for _ in range(int(SCRAPED / EVERY)):
        for program in programs:
            program.scrape()
        time.sleep(EVERY)


def _measure(programs: list[Program]) -> None:
    time.sleep(WARM)
    idle = _shares(programs, lambda: time.sleep(IDLE))
    scraped = _shares(programs, lambda: _scraped(programs))
    sys.stdout.write(f"{'':16} {'idle':>7} {f'every {EVERY:g} s':>10} {'p50':>9} {'p99':>9} {'RSS':>9} {'series':>7}\n")
    for program, share, often in zip(programs, idle, scraped, strict=True):
        found: list[tuple[float, str]] = []
        for _ in range(SCRAPES):
            found.append(program.scrape())
            time.sleep(PAUSE)
        times = sorted(milliseconds for milliseconds, _ in found)
        series = sum(line[:1] not in {"#", ""} for line in found[-1][1].splitlines())
        sys.stdout.write(
            f"{program.name:16} {share:7.2%} {often:10.2%} {statistics.median(times):6.1f} ms "
            f"{times[int(len(times) * 0.99)]:6.1f} ms {program.resident_mib():5.1f} MiB {series:7}\n"
        )


if __name__ == "__main__":
    sys.exit(main())
