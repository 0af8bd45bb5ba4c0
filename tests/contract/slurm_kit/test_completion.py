"""Shell completion: it has every option, and bash completes with it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from exporter.tools.reference.shell_completion import SHELLS, bash, commands


@pytest.mark.parametrize("shell", SHELLS)
def test_every_option_is_in_it(shell: str) -> None:
    text = SHELLS[shell]()

    for command, options in commands().items():
        assert command in text
        assert all(option.name in text for option in options)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["ch"], ["check"]),
        (
            ["check", "--dr"],
            ["--drain", "--drain.good-checks", "--drain.node", "--driver.capture", "--driver.exit-after"],
        ),
        (["check", "--format", "n"], ["nagios", "npd"]),
        (["report", "--format", "m"], ["markdown"]),
        (["report", "--simulate"], []),
        (["--web.l"], ["--web.listen-address"]),
        (["completion", "f"], ["fish"]),
        (["--log.level", ""], ["debug", "info", "warning", "error"]),
        (["check", "--format", "=", "n"], ["nagios", "npd"]),
        (["check", "--check.stage", "="], ["prolog", "epilog", "periodic", "full"]),
        (["--config.file", "comple"], ["completion"]),
        (["--config.file", "=", "comple"], ["completion"]),
        (["capture", "comple"], ["completion"]),
        (["--sample.interval", ""], []),
    ],
)
def test_bash_completes(tmp_path: Path, words: list[str], found: list[str]) -> None:
    file = tmp_path / "completion"
    file.write_text(bash())
    line = " ".join(f"'{word}'" for word in ["gpu-exporter", *words])
    program = f'COMP_WORDS=({line}); COMP_CWORD={len(words)}; _gpu_exporter; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash", "-uc", f"source {file}; {program}"], capture_output=True, text=True, check=True, cwd=tmp_path
    )

    assert done.stdout.split() == found
