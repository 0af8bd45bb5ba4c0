"""Open OnDemand's card, as Ruby renders it: of what the report says, and of any failure of it."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
CARD = ROOT / "deploy/slurm/ondemand/_gpu_jobs.html.erb"
RUBY = ROOT / ".cache/ruby/ruby"
RENDER = 'require "erb"; puts ERB.new(File.read(ARGV[0]), trim_mode: "-").result'
JOB: dict[str, Any] = {
    "job": "4711_3", "job_name": "<script>alert(1)</script>", "utilization": 0.123, "gpu_hours_wasted": 7.02,
    "slurm": {"state": "COMPLETED"}, "next_time": ["--mem=10G", "--gpus=1"],
}  # fmt: skip
DIGEST: dict[str, Any] = {
    "allocated": 80.0, "wasted": 30.0, "advice": [{"text": "Use more loader workers & CPUs."}], "slurm_jobs": [JOB],
}  # fmt: skip


class Text(HTMLParser):
    """The words of a page; every element that is opened is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        del attrs
        self.tags.append(tag)
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data.split()


def rendered(tmp_path: Path, program: str) -> Text:
    command = tmp_path / "gpu-exporter"
    command.write_text(f"#!/bin/sh\n{program}\n")
    command.chmod(0o755)
    done = subprocess.run(
        [RUBY, "-e", RENDER, CARD], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Text(done.stdout)


def test_card_has_the_jobs_and_what_to_ask_for_next_time(tmp_path: Path) -> None:
    (tmp_path / "digest").write_text(json.dumps(DIGEST))
    said = rendered(tmp_path, f'echo "$@" > {tmp_path}/asked; cat {tmp_path}/digest')
    text = " ".join(said.words)

    assert "Allocated 80.0 h , wasted 30.0 h of GPU time." in text
    assert "Use more loader workers & CPUs." in text
    assert "4711_3 <script>alert(1)</script> COMPLETED 12 % 7.0 h --mem=10G --gpus=1" in text
    assert "script" not in said.tags
    assert (tmp_path / "asked").read_text().startswith(f"report --user {pwd.getpwuid(os.geteuid()).pw_name} ")


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("exit 3", "No GPU was allocated to your jobs."),
        ("exit 4", "The numbers cannot be had now."),
        ("echo not JSON", "The numbers cannot be had now."),
        ('echo \'{"allocated": 1, "wasted": null}\'', "Allocated 1.0 h , wasted - of GPU time."),
    ],
)
def test_card_never_fails_the_page(tmp_path: Path, program: str, expected: str) -> None:
    assert expected in " ".join(rendered(tmp_path, program).words)
