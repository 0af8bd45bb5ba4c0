"""Builds VictoriaMetrics and Thanos from the Go proxy, of fixed versions, under .cache/engines."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.stack import ROOT

FOLDER = ROOT / ".cache/engines"
VICTORIA = "github.com/VictoriaMetrics/VictoriaMetrics/app"
PROGRAMS = ("victoria-metrics", "vmalert")
VICTORIA_VERSION = "v1.151.0"
THANOS, THANOS_VERSION = "github.com/thanos-io/thanos", "v0.42.2"


def build() -> None:
    """Build what is missing."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        if not (FOLDER / name).exists():
            _go("install", "-trimpath", "-ldflags=-s -w", f"{VICTORIA}/{name}@{VICTORIA_VERSION}", folder=FOLDER)
    if not (FOLDER / "thanos").exists():
        _build_thanos(FOLDER / "source")


def _build_thanos(folder: Path) -> None:
    """`go install` refuses a module that replaces others: a module of our own has its pins."""
    folder.mkdir(exist_ok=True)
    (folder / "go.mod").write_text("module engines\n")
    told = _go("mod", "download", "-json", f"{THANOS}@{THANOS_VERSION}", folder=folder)
    source = Path(json.loads(told)["Dir"])
    pins = re.sub(r"^module .*$", "module engines", (source / "go.mod").read_text(), count=1, flags=re.MULTILINE)
    (folder / "go.mod").write_text(f"{pins}\nrequire {THANOS} {THANOS_VERSION}\n")
    shutil.copy(source / "go.sum", folder)
    program = f"-o={FOLDER / 'thanos'}", f"{THANOS}/cmd/thanos"
    _go("build", "-mod=mod", "-tags=slicelabels", "-trimpath", "-ldflags=-s -w", *program, folder=folder)


def _go(*arguments: str, folder: Path) -> str:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "", "GOBIN": str(FOLDER)}
    done = subprocess.run(
        ["go", *arguments], cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout
