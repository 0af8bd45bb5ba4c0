"""The programs that a GPU process belongs to: those above it, up to who typed or scheduled it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from exporter.host.model import HostProcess
from exporter.host.process import parse_stat
from exporter.host.text import read_text

_MODULES = r"torch\.distributed\.(?:run|launch)|deepspeed\.launcher\.launch|accelerate\.commands\.launch"
_MPI = r"mpirun|mpiexec|mpiexec\.hydra|hydra_pmi_proxy|orterun|orted|prterun|prted"
_NAMES = f"torchrun|accelerate|deepspeed|horovodrun|{_MPI}"
_LAUNCHER = re.compile(
    rf"(?:\S*/)?(?:python[0-9.]*\s+(?:-[a-z]+\s+)*?(?:-m\s+(?:{_MODULES})|(?:\S*/)?(?:{_NAMES}))|(?:{_NAMES}))(?:\s|$)"
)


def launches(command_line: str) -> bool:
    """Whether a command line, its words parted by spaces, is one of theirs.

    What starts programs that have nothing to do with each other (shells, make, parallel, a script of a sweep) is not.
    """
    return _LAUNCHER.match(command_line) is not None


_ABOVE = 3
"""A server starts an engine, which starts its ranks."""
_COMMAND = 512
"""Characters of a command line."""
_SHELLS = frozenset({"ash", "bash", "csh", "dash", "fish", "ksh", "sh", "tcsh", "zsh", "screen", "tmux", "sshd"})
"""What these start is no part of who started them."""


def near(procfs: Path, processes: Iterable[HostProcess]) -> Sequence[int]:
    """The pids of `processes`, and of those above them in the same cgroup, up to a shell."""
    found = dict.fromkeys(process.pid for process in processes)
    for process in processes:
        mine, parent = read_text(f"{procfs}/{process.pid}/cgroup"), process.parent
        for _ in range(_ABOVE):
            if parent <= 1 or read_text(f"{procfs}/{parent}/cgroup") != mine:
                break
            stat = parse_stat(read_text(f"{procfs}/{parent}/stat"))
            if stat and stat.command.partition(":")[0] in _SHELLS:
                break
            found[parent] = None
            parent = stat.parent if stat else 0
    return list(found)


def program(procfs: Path, pid: int) -> str:
    """The first words of its command line; only compared with names of programs, never shown."""
    return read_text(f"{procfs}/{pid}/cmdline")[:_COMMAND].replace("\0", " ").lower()
