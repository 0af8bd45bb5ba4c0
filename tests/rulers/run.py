"""`make rulers`: the shipped rules in the parsers of Thanos and Mimir, and in their query engines beside Prometheus's.

Needs Go; modules come from the Go proxy and stay in Go's own cache. Each program is built in a module of its own, with
the dependencies that the ruler itself pins. Ends with status 1 where a rule is refused or an answer differs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from deploy.prometheus.render import Settings, render
from tests.contract.rules.cases import CASES
from tests.contract.rules.promtool import key

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
CACHE = ROOT / ".cache/rulers"
RULES = [
    ROOT / "deploy/prometheus/rules" / name
    for name in ("gpu-recording.yaml", "gpu-alerts.yaml", "old-rulers/gpu-alerts.yaml")
]


@dataclass(frozen=True, slots=True)
class Ruler:
    name: str
    module: str
    version: str


RULERS = (
    Ruler("thanos", "github.com/thanos-io/thanos", "v0.42.2"),
    Ruler("mimir", "github.com/grafana/mimir", "v1.3.1-0.20260423142704-aced80d74930"),
)
"""Mimir's releases are no versions to Go: this one is what the proxy calls its main branch."""


def main() -> int:
    if shutil.which("go") is None:
        sys.stderr.write("rulers: go is missing (on Debian: apt-get install golang, of a version Thanos asks for)\n")
        return 2
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / "cases.json").write_text(json.dumps(questions()))
    return max(check(ruler) for ruler in RULERS)


def questions() -> list[dict[str, object]]:
    """Every case of every alert: promtool's series, the expression, and the minutes to look."""
    alerts = {
        rule["alert"]: rule["expr"]
        for group in render(Settings(keep_firing=False))["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    return [
        {
            "name": key(case),
            "series": dict(case.series),
            "expr": alerts[case.alert],
            "minutes": [minutes(at) for at in case.at],
        }
        for case in CASES
    ]


def minutes(text: str) -> int:
    """Of a time as promtool takes it: `90m`, `2h`, `1h30m`."""
    return sum(int(number) * {"d": 1440, "h": 60, "m": 1}[unit] for number, unit in re.findall(r"(\d+)([dhm])", text))


def check(ruler: Ruler) -> int:
    sys.stdout.write(f"{ruler.name} {ruler.version}\n")
    sys.stdout.flush()
    folder = CACHE / ruler.name
    folder.mkdir(exist_ok=True)
    told = go(folder.parent, "mod", "download", "-json", f"{ruler.module}@{ruler.version}", capture=True)
    source = Path(json.loads(told)["Dir"])
    pins = re.sub(
        r"^module .*$", f"module rulers/{ruler.name}", (source / "go.mod").read_text(), count=1, flags=re.MULTILINE
    )
    (folder / "go.mod").write_text(f"{pins}\nrequire {ruler.module} {ruler.version}\n")
    (folder / "go.sum").write_text((source / "go.sum").read_text())
    for test in (HERE / "compare_test.go", HERE / ruler.name / "rules_test.go"):
        shutil.copy(test, folder)
    try:
        go(folder, "test", "-mod=mod", "-count=1", "-v", ".")
    except subprocess.CalledProcessError as failed:
        return failed.returncode
    return 0


def go(folder: Path, *arguments: str, capture: bool = False) -> str:
    environment = {
        **os.environ,
        "GOFLAGS": "",
        "GOWORK": "off",
        "CASES": str(CACHE / "cases.json"),
        "RULES": ":".join(map(str, RULES)),
    }
    done = subprocess.run(
        ["go", *arguments],
        cwd=folder,
        env=environment,
        check=True,
        text=True,
        stdout=subprocess.PIPE if capture else None,
    )
    return done.stdout or ""


if __name__ == "__main__":
    sys.exit(main())
