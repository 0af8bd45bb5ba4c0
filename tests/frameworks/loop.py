"""A data parallel PyTorch loop on the CPU that reports its progress: `loop.py FOLDER STEPS`, one process per rank.

Rank 1 is slow. Each rank tells its pid, waits for `begin`, takes half of its steps, waits for `go`, takes half of the
rest, says `late`, waits for `finish`, takes the rest, writes down what it counted itself, and stays until `stop` is
there: all of them files in FOLDER.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from gpu_progress import Progress

BATCH, DIMENSION = 16, 32


def wait(path: Path) -> None:
    while not path.exists():
        time.sleep(0.05)


def main(folder: Path, steps: int) -> None:
    rank = int(os.environ["SLURM_PROCID"])
    (folder / f"{rank}.pid").write_text(str(os.getpid()))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    model = torch.nn.Linear(DIMENSION, 1)
    progress = Progress(str(folder / f"{rank}/progress.sock"), total=steps, interval=0.5)
    samples = 0
    wait(folder / "begin")
    for step in range(steps):
        if step == steps // 2:
            wait(folder / "go")
        if step == steps * 3 // 4:
            (folder / f"{rank}.late").touch()
            wait(folder / "finish")
        with progress.phase("forward"):
            loss = model(torch.randn(BATCH, DIMENSION)).square().mean()
            time.sleep(0.2 if rank else 0.02)
        with progress.phase("backward"):
            loss.backward()
        with progress.phase("communication"):
            dist.all_reduce(model.weight.grad)
        samples += BATCH
        progress.step(samples=BATCH)
    (folder / f"{rank}.count").write_text(str(samples))
    wait(folder / "stop")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
