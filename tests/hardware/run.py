"""Measure against a real NVIDIA driver and GPU: `python -m tests.hardware.run FOLDER`. See docs/dev/hardware.md.

Each part is a process of its own, so that a crash of the driver's library or a hung call costs one part. Into FOLDER
goes a JSON file for each part, report.md, log.txt and exporter.log: nine files at most.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from exporter.driver.nvml import NvmlDriver
from tests.hardware import answers, captures, collective, comparisons, exported, report
from tests.hardware.bench import Bench
from tests.hardware.loads import Loads, NoLoads, torch_loads

_ROOT = Path(__file__).resolve().parents[2]
PARTS: Mapping[str, Callable[[Bench], None]] = {
    "answers": answers.measure,
    "captures": captures.measure,
    "comparisons": comparisons.measure,
    "collective": collective.measure,
    "diagnosis": exported.diagnosis,
    "cost": exported.cost,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Status 0; 1 when a part failed or a verdict says that something differs."""
    options = _options(arguments)
    if options.part:
        _measure(options)
        return 0
    if options.load == "torch":
        torch_loads(options.gpu)  # refuses where there is no torch, before anything is measured
    options.folder.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + options.within
    statuses: dict[str, str] = {}
    for part in options.parts.split(","):
        left = ends - time.monotonic()
        statuses[part] = _run(part, options, left) if left > 0 else "not begun: out of time"
        _write_report(options, statuses)
    failed = any(ended != "whole" for ended in statuses.values())
    return int(failed or report.differing(_results(options.folder, statuses)) > 0)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.hardware.run", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the results go")
    parser.add_argument("--parts", default=",".join(PARTS), help="which, in this order (default: %(default)s)")
    parser.add_argument("--gpu", type=int, default=0, help="NVML index of the GPU to use (default: %(default)s)")
    parser.add_argument("--load", choices=("torch", "none"), default="torch", help="none: only try the program itself")
    parser.add_argument("--scale", type=float, default=1.0, help="shortens each measurement (default: %(default)s)")
    parser.add_argument("--within", type=float, default=3600.0, help="seconds for all parts (default: %(default)s)")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = set(options.parts.split(",")) - PARTS.keys()
    if unknown:
        parser.error(f"unknown part {min(unknown)!r}: expected some of {', '.join(PARTS)}")
    return options


def _run(part: str, options: argparse.Namespace, left: float) -> str:
    """How the part ended."""
    command = [sys.executable, "-m", "tests.hardware.run", str(options.folder.resolve()), "--part", part,
               "--gpu", str(options.gpu), "--load", options.load, "--scale", str(options.scale)]  # fmt: skip
    began = time.monotonic()
    with (options.folder / "log.txt").open("a", encoding="utf-8") as log:
        log.write(f"== {part}\n")
        log.flush()
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=_ROOT, start_new_session=True)
        try:
            status = process.wait(left)
            ended = "whole" if status == 0 else f"broken: status {status}, see log.txt"
        except subprocess.TimeoutExpired:
            ended = "cut off: out of time"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with the programs it started
            process.wait()
    sys.stderr.write(f"{part}: {ended}, {time.monotonic() - began:.0f} s\n")
    return ended


def _measure(options: argparse.Namespace) -> None:
    loads: Loads = torch_loads(options.gpu) if options.load == "torch" else NoLoads()
    driver = NvmlDriver()
    driver.open()
    try:
        bench = Bench(driver, options.gpu, loads, options.scale, options.folder, options.part)
        bench.keep("loads", loads.name)
        PARTS[options.part](bench)
    finally:
        driver.close()


def _results(folder: Path, names: Mapping[str, Any]) -> dict[str, Any]:
    paths = {name: folder / f"{name}.json" for name in names}
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}


def _write_report(options: argparse.Namespace, statuses: Mapping[str, str]) -> None:
    parts = _results(options.folder, statuses)
    header = {
        "when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "loads": options.load,
        "scale": options.scale,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
    }
    (options.folder / "report.md").write_text(report.render(header, parts, statuses), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
