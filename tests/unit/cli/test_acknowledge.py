"""`gpu-exporter acknowledge`: what names no GPU acknowledges nothing, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import run


@pytest.mark.parametrize(
    ("arguments", "option"),
    [(("--fault", "xid"), "fault"), (("--reason", "mended"), "reason"), (("--by", "ada"), "by")],
)
def test_a_fault_without_its_gpu_is_a_wrong_option(tmp_path: Path, arguments: tuple[str, ...], option: str) -> None:
    done = run("acknowledge", *arguments, "--state.dir", str(tmp_path))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"gpu-exporter: --{option}: expected with --gpu, the GPU whose fault is over\n"


def test_without_any_of_them_the_faults_are_listed(tmp_path: Path) -> None:
    assert run("acknowledge", "--state.dir", str(tmp_path)) == (
        0,
        "",
        f"gpu-exporter: no fault is known in {tmp_path}\n",
    )
