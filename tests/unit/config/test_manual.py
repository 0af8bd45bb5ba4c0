"""Manual pages: one for each command, every option on it, and nothing roff would stumble over."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from exporter.commands import COMMANDS
from exporter.tools.reference.manual import PAGES, manuals
from exporter.tools.reference.shell_completion import commands


def test_every_command_but_the_completion_has_a_page() -> None:
    assert set(PAGES) == set(COMMANDS) - {"completion"}


def test_every_option_is_on_its_page() -> None:
    texts, tables = manuals(), commands()
    for command in PAGES:
        text = texts["gpu-exporter.1" if command == "serve" else f"gpu-exporter-{command}.1"]
        missing = [o.name for o in tables[command] if f"\\-\\-{o.name.replace('-', chr(92) + '-')}" not in text]
        assert missing == []


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
@pytest.mark.parametrize("name", sorted(manuals()))
def test_groff_has_no_complaint(name: str) -> None:
    command = ["groff", "-man", "-Tascii", "-ww", "-Wbreak"]
    done = subprocess.run(command, input=manuals()[name], text=True, capture_output=True, check=True)
    assert done.stderr == ""
