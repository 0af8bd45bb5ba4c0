"""GPUs that Slurm gives a job by numbers of gres.conf, of which this node has none."""

from __future__ import annotations

from pathlib import Path

from exporter.attribution.owner import Ownership
from exporter.attribution.slurm.job import Job, NodeGres
from tests.attribution_kit.nodes import gpu
from tests.attribution_kit.slurm_node import Node, job

A, B = gpu(0), gpu(1)


def unresolved(ownership: Ownership) -> dict[str, int]:
    return {each.source: count for each in ownership.health for count in each.unresolved.values()}


def test_gpu_of_gres_conf_that_is_not_here_is_counted(tmp_path: Path) -> None:
    node = Node(tmp_path)
    (tmp_path / "gres.conf").write_text("Name=gpu File=/dev/nvidia[0,7],/dev/renamed\n")
    for index in range(4):  # the last has no file at all
        node.map(str(index), "7")
    node.read()

    ownership = node.attribution.join([A, B], {}, {}, 1.0)

    assert ownership.holders == {A.uuid: (job("7"),)}
    assert unresolved(ownership) == {"slurm_mapping": 3}


def test_files_that_name_no_gpu_of_this_node_do_not_silence_slurmctld(tmp_path: Path) -> None:
    gres = (NodeGres(frozenset({"n1"}), "gpu", 1, (1,)),)
    node = Node(tmp_path, controller={"7": Job("7", "alice", gres=gres)})
    (tmp_path / "gres.conf").write_text("Name=gpu File=/dev/renamed,/dev/nvidia1\n")
    node.map("0", "7")
    node.read()
    node.read()

    ownership = node.attribution.join([A, B], {}, {}, 1.0)

    assert ownership.holders == {B.uuid: (job("7", "alice"),)}
    assert unresolved(ownership) == {"slurm_mapping": 0, "slurm_scontrol": 0}


def test_node_goes_by_the_name_that_the_prolog_was_told(tmp_path: Path) -> None:
    """Where Slurm calls it otherwise than the host calls itself, gres.conf's lines for it are found by that name."""
    node = Node(tmp_path)
    (tmp_path / "gres.conf").write_text(
        "NodeName=n2 Name=gpu File=/dev/nvidia[0-1]\nNodeName=gpu[01-04] Name=gpu File=/dev/nvidia[1,0]\n"
    )
    (node.mapping / "job_7").write_text("SLURM_JOB_ID=7\nSLURM_JOB_GPUS=0\nSLURMD_NODENAME=gpu02\n")
    node.read()

    assert node.attribution.join([A, B], {}, {}, 1.0).holders == {B.uuid: (job("7"),)}
