"""GPUs as a grid in a terminal: nodes, GPUs, users and utilization over the last hours."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import urllib.parse
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.report.test_failures import api, say

FILE = Path(__file__).resolve().parents[3] / "deploy/slurm/gpudash.py"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("slurm_gpudash", FILE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


KIT = _load()


def _series(host: str, gpu: str, *points: tuple[int, str], **labels: str) -> dict[str, object]:
    return {"metric": {"host": host, "gpu": gpu, **labels}, "values": [list(point) for point in points]}


USED = [
    _series("n10", "0", (100, "0.9"), (160, "0.05")),
    _series("n2", "1", (100, "0"), (160, "0.42")),
    _series("n2", "0", (160, "1")),
]
OWNED = [
    _series("n10", "0", (100, "1"), (160, "1"), user="alice"),
    _series("n2", "1", (160, "0.5"), user="bob"),
    _series("n2", "1", (160, "0.5"), user="carol"),
    _series("n2", "0", (160, "1"), user="maximilian-long"),
]


@pytest.mark.parametrize(
    ("target", "host"), [("10.0.0.7:9836", "10.0.0.7"), ("gpu1.site.edu:9836", "gpu1"), ("1u-gpu", "1u-gpu")]
)
def test_node_without_a_label_is_called_by_its_target(target: str, host: str) -> None:
    """Nodes with IP addresses would all be 10."""
    found = re.fullmatch(KIT._TARGET, target)
    assert found
    assert "".join(found.groups("")) == host


def test_row_for_each_gpu_with_users_and_utilization() -> None:
    rows = KIT.grid(USED, OWNED, (100, 160))

    assert {key: [KIT.text_of(cell) for cell in cells] for key, cells in rows.items()} == {
        ("n2", 0): ["-", "maximil:100"],
        ("n2", 1): ["free", "2 users:42"],
        ("n10", 0): ["alice:90", "alice:5"],
    }
    assert list(rows) == [("n2", 0), ("n2", 1), ("n10", 0)]


@pytest.mark.parametrize(
    ("users", "utilization", "colour"), [("", 0.0, 2), ("a", 0.05, 31), ("a", 0.4, 33), ("a", 0.9, 32), ("a", None, 2)]
)
def test_colours_by_utilization(users: str, utilization: float | None, colour: int) -> None:
    assert KIT.colour_of(KIT.Cell(tuple(users), utilization)) == colour


def test_name_that_is_no_text_reaches_no_terminal() -> None:
    assert KIT.text_of(KIT.Cell(("a\x1b[2Jb",), 0.5)) == "a?[2Jb:50"


@pytest.mark.parametrize("node", ["a-long-name1", "a-name-of-20-letters"])
@pytest.mark.parametrize(("width", "most"), [(80, 80), (200, 200), (20, 40)])
def test_lines_fit_the_terminal(width: int, most: int, node: str) -> None:
    columns = KIT.columns_of(width, 12)
    moments = [60 * each for each in range(columns)]
    used = [_series(node, "15", *((at, "1") for at in moments))]
    owned = [_series(node, "15", *((at, "1") for at in moments), user="aturing-and-more")]
    text = KIT.render(KIT.grid(used, owned, moments), moments, width, colours=False, legend=True)

    assert max(map(len, text.splitlines())) <= most
    assert columns >= (5 if width >= 80 else 1)
    assert text.splitlines()[1].endswith("aturing:100")


def _dash(*arguments: str, columns: str = "80") -> subprocess.CompletedProcess[str]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        asked = urllib.parse.parse_qs(urllib.parse.urlsplit(handler.path).query)
        end = int(asked["end"][0])
        name = "alice" if "user" in asked["query"][0] else None
        result = _series("gpu1", "0", (end, "0.77"), **({"user": name} if name else {}))
        say(handler, 200, json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [result]}}))

    with api(answer) as url:
        return subprocess.run(
            [sys.executable, str(FILE), "--prometheus.url", url, *arguments],
            env={**os.environ, "COLUMNS": columns}, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip


def test_program_prints_the_grid_without_colours_into_a_pipe() -> None:
    done = _dash("--hours", "6")

    assert (done.returncode, done.stderr) == (0, "")
    head, row = done.stdout.splitlines()[:2]
    assert head.split()[:2] == ["NODE", "GPU"]
    assert len(head.split()) == 2 + 5
    assert row.split() == ["gpu1", "0", "-", "-", "-", "-", "alice:77"]
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("more", "shown"), [(("-u", "alice"), True), (("-u", "bob"), False), (("--node", "cpu.*"), False)]
)
def test_only_what_is_asked_for_is_shown(more: tuple[str, ...], shown: bool) -> None:  # noqa: FBT001 - a parameter
    assert ("alice:77" in _dash(*more).stdout) is shown


@pytest.mark.parametrize("program", ["gpudash.py", "gpuinfo.py"])
@pytest.mark.parametrize(
    ("settings", "environment", "asked"),
    [
        ("GPU_EXPORTER_PROMETHEUS_URL=http://127.0.0.1:1\n", "", "http://127.0.0.1:1"),
        (
            "#GPU_EXPORTER_PROMETHEUS_URL=x\nGPU_EXPORTER_PROMETHEUS_URL='http://127.0.0.1:1' \n",
            "",
            "http://127.0.0.1:1",
        ),
        ("GPU_EXPORTER_PROMETHEUS_URL=http://127.0.0.1:1\n", "http://127.0.0.1:2", "http://127.0.0.1:2"),
        ("# \xa7 in Latin-1\nGPU_EXPORTER_PROMETHEUS_URL=http://127.0.0.1:1\n", "", "http://127.0.0.1:1"),
    ],
)
def test_prometheus_is_that_of_the_environment_or_of_the_settings_of_jobstats(
    tmp_path: Path, program: str, settings: str, environment: str, asked: str
) -> None:
    (tmp_path / "settings").write_text(settings, encoding="latin-1")
    own = {"GPU_EXPORTER_REPORT_SETTINGS": str(tmp_path / "settings"), "GPU_EXPORTER_PROMETHEUS_URL": environment}
    (tmp_path / "scontrol").write_text("#!/bin/sh\n")
    (tmp_path / "scontrol").chmod(0o755)
    done = subprocess.run(
        [sys.executable, str(FILE.with_name(program))], env={**os.environ, **own, "PATH": f"{tmp_path}:/bin:/usr/bin"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert asked in done.stderr
    assert "Traceback" not in done.stderr


def test_pattern_of_nodes_that_is_none_is_one_line() -> None:
    done = _dash("--node", "*gpu")

    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "gpudash.py: error: argument --node: no regular expression: '*gpu'"


def test_prometheus_that_is_away_is_one_line() -> None:
    done = subprocess.run(
        [sys.executable, str(FILE), "--prometheus.url", "http://127.0.0.1:1"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
