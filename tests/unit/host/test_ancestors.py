"""Which programs above a GPU process are asked what they are."""

from __future__ import annotations

from pathlib import Path

from exporter.core.clock import UnixTime
from exporter.core.units import Bytes
from exporter.host.model import HostProcess
from exporter.host.network import command_line, related_pids

STAT = "{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0\n"


def write(root: Path, pid: int, name: str, parent: int, cgroup: str = "/server") -> HostProcess:
    folder = root / str(pid)
    folder.mkdir()
    (folder / "stat").write_text(STAT.format(pid=pid, name=name, parent=parent))
    (folder / "cgroup").write_text(f"0::{cgroup}\n")
    (folder / "cmdline").write_text(f"/usr/bin/{name}\0--Port=1\0")
    return HostProcess(pid, name, "ada", UnixTime(1.0), 0.0, Bytes(0), cgroup, parent)


def test_ranks_belong_to_the_engine_and_to_the_server_that_started_it(tmp_path: Path) -> None:
    ranks = [write(tmp_path, pid, "VLLM::Worker", 20) for pid in (30, 31)]
    write(tmp_path, 20, "VLLM::EngineCor", 10)
    write(tmp_path, 10, "vllm", 5)
    write(tmp_path, 5, "containerd-shim", 1, cgroup="/system")

    assert related_pids(tmp_path, ranks) == [30, 31, 20, 10]
    assert command_line(tmp_path, 10) == "/usr/bin/vllm --port=1 "


def test_what_was_typed_in_a_terminal_is_no_part_of_the_notebook_that_shows_it(tmp_path: Path) -> None:
    typed = write(tmp_path, 30, "python", 20)
    write(tmp_path, 20, "bash", 10)
    write(tmp_path, 10, "jupyter-lab", 1)

    assert related_pids(tmp_path, [typed]) == [30]


def test_process_whose_parent_has_gone_stands_alone(tmp_path: Path) -> None:
    assert related_pids(tmp_path, [write(tmp_path, 30, "python", 20)]) == [30]
