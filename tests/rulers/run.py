"""`make rulers`: the shipped rules in Mimir's own parser, the one of `mimirtool rules load`.

Needs Go; modules come from the Go proxy and stay in Go's own cache. The program is built in a module of its own, with
the dependencies that Mimir itself pins. Ends with status 1 where a rule is refused.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
FOLDER = ROOT / ".cache/rulers/mimir"
RULES = [ROOT / "deploy/prometheus/rules" / name for name in ("gpu-recording.yaml", "gpu-alerts.yaml")]
MODULE = "github.com/grafana/mimir"
VERSION = "v1.3.1-0.20260423142704-aced80d74930"
"""Mimir's releases are no versions to Go: this one is what the proxy calls its main branch of April 2026."""


def main() -> int:
    if shutil.which("go") is None:
        sys.stderr.write("rulers: go is missing (on Debian: apt-get install golang, of the version Mimir asks for)\n")
        return 2
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    told = go("mod", "download", "-json", f"{MODULE}@{VERSION}", capture=True)
    source = Path(json.loads(told.stdout)["Dir"])
    pins = re.sub(r"^module .*$", "module rulers/mimir", (source / "go.mod").read_text(), count=1, flags=re.MULTILINE)
    (FOLDER / "go.mod").write_text(f"{pins}\nrequire {MODULE} {VERSION}\n")
    shutil.copy(source / "go.sum", FOLDER)
    shutil.copy(HERE / "mimir_test.go", FOLDER)
    return go("test", "-mod=mod", "-count=1", "-v", ".").returncode


def go(*arguments: str, capture: bool = False) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GOFLAGS": "", "GOWORK": "off", "RULES": ":".join(map(str, RULES))}
    return subprocess.run(
        ["go", *arguments],
        cwd=FOLDER,
        env=environment,
        check=capture,
        text=True,
        stdout=subprocess.PIPE if capture else None,
    )


if __name__ == "__main__":
    sys.exit(main())
