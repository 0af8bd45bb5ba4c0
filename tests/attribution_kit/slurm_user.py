"""A user whose job tries to hold, read, forge and fill what prolog, epilog and the controller's hook write."""

from __future__ import annotations

from collections.abc import Sequence

from tests.attribution_kit.slurm_kit import Kit
from tests.stack import poll

_TRIES = """\
#!/bin/sh
for folder in {work}/gpumap {work}/ended; do
    flock -n "$folder" true && echo held "$folder"
    flock -n "$folder/job_$SLURM_JOB_ID" true && echo held "$folder"
    cat "$folder"/* && echo read "$folder"
    ln -s /etc/passwd "$folder/job_1" && echo linked "$folder"
    mkfifo "$folder/job_2" && echo piped "$folder"
    mv "$folder" "$folder.mine" && echo moved "$folder"
    number=0
    while [ $number -lt 100000 ]; do
        true >"$folder/job_$number" && echo filled "$folder" && break
        number=$((number + 1))
    done
    echo "tried $number files in $folder"
done 2>/dev/null
touch {work}/pids/tried
sleep 600
"""
_FORGED = (
    "SLURM_JOB_GPUS=0,1,2,3,4,5,6,7",
    "SLURM_JOB_USER=root",
    "SLURM_JOB_ACCOUNT=physics",
    "CUDA_VISIBLE_DEVICES=MIG-00000000-0000-0000-0000-000000000001",
)


def tries(kit: Kit) -> tuple[str, Sequence[str]]:
    """A job of another user's on one GPU that still runs, its tries over; and what it says of them."""
    script, said = kit.work / "tries.sh", kit.work / "pids/said"
    script.write_text(_TRIES.format(work=kit.work))
    submit = ("sbatch", "--parsable", "--uid=games", "--gid=games", "-o", str(said), "--gres=gpu:1", str(script))
    job = kit.run("env", *_FORGED, *submit).strip()
    poll("the end of its tries", lambda: (kit.work / "pids/tried").exists() or None, 120)
    return job, said.read_text().splitlines()
