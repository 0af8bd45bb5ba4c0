"""`job_submit.lua` hints to who asks for GPUs, whole or in parts, and to nobody else."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HINT = Path(__file__).resolve().parents[3] / "deploy/slurm/job_submit.lua"
LUA = next((path for name in ("lua5.4", "lua5.3", "lua5.1", "lua", "luajit") if (path := shutil.which(name))), "")
SUBMIT = """
slurm = {{SUCCESS = 0, log_user = function(form, text) print(text) end}}
dofile("{hint}")
os.exit(slurm_job_submit({{{job}, user_id = 7.0, name = "train"}}, {{}}, 7))
"""


@pytest.mark.skipif(not LUA, reason="there is no lua to run it with")
@pytest.mark.parametrize(
    ("asked", "hinted"),
    [
        ('tres_per_node = "gres:gpu:4"', True),
        ('tres_per_job = "gres/gpu=4"', True),
        ('tres_per_node = "gres/shard:2"', True),
        ('tres_per_node = "gres:mps:50"', True),
        ('tres_per_task = "cpu=2,gres/shard=1"', True),
        ('tres_per_node = "gres/license:1"', False),
        ("tres_per_node = 4", False),
        ("min_cpus = 4", False),
    ],
)
def test_parts_of_gpus_are_gpus(asked: str, hinted: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a column
    (tmp_path / "hints").mkdir()
    (tmp_path / "hints/7").write_text("other\tno\ntrain\tnext time --gpus=1\n")
    hint = tmp_path / "hint.lua"
    hint.write_text(HINT.read_text().replace("/var/lib/gpu-exporter-summaries", str(tmp_path)))
    script = tmp_path / "submit.lua"
    script.write_text(SUBMIT.format(hint=hint, job=asked))

    done = subprocess.run([LUA, script], capture_output=True, text=True, timeout=30, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ("next time --gpus=1\n" if hinted else "")
