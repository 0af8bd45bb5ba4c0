"""A fake node for `gpu-exporter check`, judged by its driver and by what its exporter serves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.exporter_process import NO_SLURM, ROOT, exporter

FakeNvml = Callable[..., Any]


class Outcome(NamedTuple):
    """Exit status and first line of the text form."""

    status: int
    headline: str


@dataclass(frozen=True, slots=True)
class CheckedNode:
    """A node whose files are in `folder`. `pci` are the addresses of its GPUs."""

    folder: Path
    environment: Mapping[str, str]
    pci: Sequence[str] = ()
    options: Sequence[str] = field(default=())

    def __post_init__(self) -> None:
        devices = self.folder / "sys/bus/pci/devices"
        devices.mkdir(parents=True, exist_ok=True)
        for address in self.pci:
            (devices / address).mkdir()
            (devices / address / "vendor").write_text("0x10de\n")
            (devices / address / "class").write_text("0x030200\n")
        (self.folder / "kmsg").touch()
        (self.folder / "state").mkdir(exist_ok=True)

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def paths(self) -> Sequence[str]:
        return (
            f"--path.sysfs={self.folder / 'sys'}",
            f"--path.kmsg={self.folder / 'kmsg'}",
            f"--state.dir={self.state}",
            *self.options,
        )

    def check(self, *options: str) -> Outcome:
        """Run the check on the driver itself."""
        return self._run(*self.paths, *options)

    def check_url(self, url: str, *options: str) -> Outcome:
        """Run the check on what an exporter serves."""
        return self._run(f"--check.url={url}/metrics", *options)

    def check_both(self) -> tuple[Outcome, Outcome]:
        """Run the check on the driver, then on an exporter of this node."""
        direct = self.check()
        with exporter(self.folder, *self.paths, environment={**os.environ, **self.environment}) as running:
            return direct, self.check_url(running.url)

    def findings(self, *options: str) -> Sequence[Mapping[str, Any]]:
        done = self._start(*self.paths, "--format=json", *options)
        found: Sequence[Mapping[str, Any]] = json.loads(done.stdout)["findings"]
        return found

    def _run(self, *options: str) -> Outcome:
        done = self._start(*options)
        return Outcome(done.returncode, (done.stdout + done.stderr).partition("\n")[0])

    def _start(self, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "exporter", "check", *options],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
            cwd=ROOT,
            env={**os.environ, **NO_SLURM, **self.environment},
        )
