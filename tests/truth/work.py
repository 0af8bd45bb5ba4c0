"""Work on GPUs with known truth: what each rank does in each moment, and which ranks the others wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.attribution.owner import Owner

JOB = Owner(workload="slurm:7", kind="slurm", slurm_job="7")
NEIGHBOUR = Owner(workload="slurm:8", kind="slurm", slurm_job="8")

_TRUTH = {"spin": "wait_collective", "idle": "wait_other", "move": "communication", "light": "low_sm_activity"}
"""State of a segment whose maker names none, by what the GPU does; of all else it is `computing`."""


class Segment(NamedTuple):
    """A GPU does one thing for some seconds."""

    seconds: float
    gpu: str
    """Row of the table of levels."""
    state: str
    program: str = "launch"
    """What its process does meanwhile: a row of `PROGRAMS`."""
    clock: float = 1.0
    """Part of the clock that heat has left."""
    runner: int = 0
    """Which of the GPU's allocations runs the kernel."""


class Program(NamedTuple):
    """A process: CPU of its busiest thread, where it sits, and what it moves."""

    thread: float = 0.35
    blocked: float = 0.0
    receiving: float = 0.0
    from_peer: bool = False
    """It receives from another process of its job."""
    polling: bool = False
    read: float = 1e6
    written: float = 0.0
    network: float = 0.0


PROGRAMS = {
    "launch": Program(),
    "sleep": Program(thread=0.01, read=0.0),
    "disk": Program(thread=0.05, blocked=1.0, read=3e8),
    "save": Program(thread=0.3, blocked=1.0, read=0.0, written=9e8),
    "cpu": Program(thread=1.0),
    "poll": Program(thread=1.0, polling=True, read=0.0),
    "barrier": Program(thread=0.01, receiving=1.0, from_peer=True, read=0.0),
    "download": Program(thread=0.4, receiving=1.0, read=0.0, written=0.0, network=2e8),
}


class Slice(NamedTuple):
    """One owner's allocation of a GPU."""

    owner: Owner = JOB
    share: float = 1.0
    pid: int = 0
    """0: one of its own for each rank."""


@dataclass
class Work:
    """One shape: the timeline of each GPU, and what is true of all of them."""

    name: str
    ranks: int
    late: frozenset[int] = frozenset()
    """Ranks that the others wait for; of the rest none may be named."""
    seconds: float = 240.0
    warm_up: float = 60.0
    """Seconds before anything is counted."""
    gpm: bool = True
    kind: str = "llm"
    """Row of the levels of `work`."""
    work_class: str = ""
    launcher: bool = True
    linked: bool = True
    """Its ranks exchange traffic."""
    slices: Sequence[Slice] = (Slice(),)
    instances: bool = False
    """The timelines are those of MIG instances of one GPU."""
    timelines: list[list[Segment]] = field(default_factory=list[list[Segment]])
    waited_for: dict[int, float] = field(default_factory=dict[int, float])
    """By rank: seconds that the others waited for it, on the average, after the warm-up."""

    def __post_init__(self) -> None:
        self.timelines = self.timelines or [[] for _ in range(self.ranks)]

    def add(self, rank: int, seconds: float, gpu: str, state: str = "", program: str = "", clock: float = 1.0) -> None:
        if seconds > 0:
            state = state or (_TRUTH.get(gpu, "computing"))
            segment = Segment(seconds, gpu, state, program or ("sleep" if gpu == "idle" else "launch"), clock)
            self.timelines[rank].append(segment)

    def length(self, rank: int) -> float:
        return sum([each.seconds for each in self.timelines[rank]])
