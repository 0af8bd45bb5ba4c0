"""Shell completion: what is committed is what the options make, and bash completes with it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from exporter.completion import FILES, SHELLS

FOLDER = Path(__file__).parents[3] / "deploy/completion"


@pytest.mark.parametrize("shell", SHELLS)
def test_files_are_made_from_the_options(shell: str) -> None:
    assert (FOLDER / FILES[shell]).read_text() == SHELLS[shell](), "run `make completion`"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["ch"], ["check"]),
        (["check", "--dr"], ["--drain", "--drain.node", "--driver.capture"]),
        (["check", "--format", "n"], ["nagios", "npd"]),
        (["report", "--format", "m"], ["markdown"]),
        (["report", "--simulate"], []),
        (["--web.l"], ["--web.listen-address"]),
        (["completion", "f"], ["fish"]),
    ],
)
def test_bash_completes(words: list[str], found: list[str]) -> None:
    line = " ".join(f"'{word}'" for word in ["gpu-exporter", *words])
    program = f'COMP_WORDS=({line}); COMP_CWORD={len(words)}; _gpu_exporter; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash", "-uc", f"source {FOLDER / FILES['bash']}; {program}"], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == found
