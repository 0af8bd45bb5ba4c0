"""Maintenance and pool of this node, as slurmctld is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.attribution.background_source import SourceError
from exporter.daemon import assembly
from exporter.faults.expected import SlurmNodeState, only_partition, slurm_state


def scontrol(folder: Path, body: str) -> str:
    program = folder / "scontrol"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return str(program)


def test_slurm_is_asked_of_this_node(tmp_path: Path) -> None:
    asked = scontrol(tmp_path, 'test "$*" = "show node n1" && echo "NodeName=n1 State=MAINT"')

    assert slurm_state(asked, ["n1"]) == SlurmNodeState(maintenance=True)
    with pytest.raises(SourceError):
        slurm_state(asked, ["n2"])


@pytest.mark.parametrize(
    ("given", "host", "called"),
    [
        ("", "n1.example.com", "n1"),
        ("", "n1.example.com", "n1.example.com"),
        ("n1.example.com", "ip-10-0-0-7", "n1.example.com"),
        ("n1.example.com", "ip-10-0-0-7", "n1"),
    ],
)
def test_node_is_asked_of_by_its_short_and_by_its_full_name(
    given: str, host: str, called: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A NodeName may be a full domain name."""
    monkeypatch.setenv("SLURMD_NODENAME", given)
    monkeypatch.setattr("socket.gethostname", lambda: host)
    known = f'test "$3" = {called} && echo "NodeName={called} State=IDLE+MAINTENANCE" && exit'
    asked = scontrol(tmp_path, f'{known}\necho "Node $3 not found"; exit 1')

    assert slurm_state(asked, assembly.slurm_names()) == SlurmNodeState(maintenance=True)
    with pytest.raises(SourceError, match=r"Node x\.y not found"):
        slurm_state(asked, ["x", "x.y"])


def test_machine_that_slurmctld_does_not_know_is_no_node_unless_slurm_is_required(tmp_path: Path) -> None:
    asked = scontrol(tmp_path, 'echo "Node $3 not found"; exit 1')

    assert slurm_state(asked, ["x", "x.y"], required=False) is None
    with pytest.raises(SourceError, match="Node x not found"):
        slurm_state(asked, ["x"])


def test_node_whose_slurmctld_does_not_answer_has_a_failing_source(tmp_path: Path) -> None:
    asked = scontrol(tmp_path, 'echo "slurm_load_node error: Unable to contact slurm controller"; exit 1')

    with pytest.raises(SourceError, match="Unable to contact"):
        slurm_state(asked, ["x"], required=False)


@pytest.mark.parametrize(
    ("partitions", "pool"),
    [("   Partitions=spot \n", "spot"), ("   Partitions=gpu,spot \n", ""), ("", ""), ("   Partitions=(null)\n", "")],
)
def test_pool_is_the_only_partition(partitions: str, pool: str) -> None:
    """A reason is what a person writes."""
    shown = f"NodeName=n1\n   State=IDLE\n{partitions}   Reason=was Partitions=debug [ada@now]"

    assert only_partition(shown) == pool


def test_state_of_slurm_has_the_pool(tmp_path: Path) -> None:
    asked = scontrol(tmp_path, 'printf "NodeName=n1\\n   State=IDLE\\n   Partitions=spot \\n"')

    assert slurm_state(asked, ["n1"]) == SlurmNodeState(maintenance=False, pool="spot")
