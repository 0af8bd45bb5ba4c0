"""`pip install ./deploy/progress` in an environment of its own, the build backend from the registry."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from exporter import __version__
from tests.stack import ROOT


def run(*command: str | Path, given: str = "", **environment: str) -> str:
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, check=False, env={**os.environ, **environment}, cwd="/"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_package_is_built_installed_and_reports(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", venv)
    run(venv / "bin/pip", "install", "-q", "--disable-pip-version-check", ROOT / "deploy/progress")
    told = run(venv / "bin/pip", "list", "--disable-pip-version-check", "--format", "json")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "progress.sock"))
        server.settimeout(60)
        lines = "steps=3 samples=192\n"
        run(venv / "bin/gpu-progress", given=lines, GPU_PROGRESS_SOCKET=str(tmp_path / "progress.sock"))
        report = json.loads(server.recv(4096))
    where = run(
        venv / "bin/python", "-c", "import gpu_progress, gpu_progress_callbacks as c; print(c.__file__, c.keras)"
    )

    assert {"name": "gpu-exporter-progress", "version": __version__} in json.loads(told)
    assert (report["version"], report["steps"], report["samples"]) == (1, 3.0, 192.0)
    assert str(venv) in where
