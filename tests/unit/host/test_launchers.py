"""Which programs start the ranks of one distributed program."""

from __future__ import annotations

import pytest

from exporter.host.network import is_launcher


@pytest.mark.parametrize(
    "command_line",
    [
        "torchrun --nproc_per_node 8 train.py",
        "/usr/bin/python3 /home/ada/.local/bin/torchrun --nproc_per_node=8 train.py",
        "/opt/conda/bin/python -m torch.distributed.run --nproc_per_node=8 train.py",
        "python3.11 -u -m torch.distributed.launch train.py",
        "/usr/bin/python3 -u -m deepspeed.launcher.launch --world_info=e30= train.py",
        "/usr/bin/python3 /usr/bin/accelerate launch train.py",
        "mpirun -np 8 python train.py",
        "/opt/openmpi/bin/mpiexec.hydra -n 8 ./solve",
        "prted",
    ],
)
def test_launchers_of_ranks(command_line: str) -> None:
    assert is_launcher(command_line)


@pytest.mark.parametrize(
    "command_line",
    [
        "",
        "-bash",
        "bash -c torchrun --nproc_per_node 8 train.py",
        "python3 sweep.py torchrun",
        "python3 -m sweep --launcher torchrun",
        "parallel -j 8 python train.py",
        "/usr/bin/make -j8",
        "tmux new -s torchrun",
        "vim torchrun",
        "torchrunner",
        "python3 my_torchrun.py",
        "/usr/bin/python3 /usr/bin/jupyter-lab",
    ],
)
def test_what_starts_whatever_people_like_is_none(command_line: str) -> None:
    assert not is_launcher(command_line)
