"""Programs that start the ranks of one distributed program, and nothing else: what they start is one work."""

from __future__ import annotations

import re

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
