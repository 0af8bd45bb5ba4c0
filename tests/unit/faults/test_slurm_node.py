"""Whether this node is in maintenance, as slurmctld is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.attribution.background_source import SourceError
from exporter.daemon import assembly
from exporter.faults.expected import slurm_maintenance


def scontrol(folder: Path, body: str) -> str:
    program = folder / "scontrol"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return str(program)


def test_slurm_is_asked_of_this_node(tmp_path: Path) -> None:
    asked = scontrol(tmp_path, 'test "$*" = "show node n1" && echo "NodeName=n1 State=MAINT"')

    assert slurm_maintenance(asked, ["n1"])
    with pytest.raises(SourceError):
        slurm_maintenance(asked, ["n2"])


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

    assert slurm_maintenance(asked, assembly.slurm_names())
    with pytest.raises(SourceError, match=r"Node x\.y not found"):
        slurm_maintenance(asked, ["x", "x.y"])


def test_machine_that_slurmctld_does_not_know_is_no_node_unless_slurm_is_required(tmp_path: Path) -> None:
    asked = scontrol(tmp_path, 'echo "Node $3 not found"; exit 1')

    assert slurm_maintenance(asked, ["x", "x.y"], required=False) is None
    with pytest.raises(SourceError, match="Node x not found"):
        slurm_maintenance(asked, ["x"])


def test_node_whose_slurmctld_does_not_answer_has_a_failing_source(tmp_path: Path) -> None:
    asked = scontrol(tmp_path, 'echo "slurm_load_node error: Unable to contact slurm controller"; exit 1')

    with pytest.raises(SourceError, match="Unable to contact"):
        slurm_maintenance(asked, ["x"], required=False)
