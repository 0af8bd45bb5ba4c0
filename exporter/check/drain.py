"""Keeping a Slurm node in step with the verdict: drained with the reason, resumed when that has gone.

Only what this program drained is ever resumed: its reasons begin with a mark.
"""

from __future__ import annotations

import enum
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MARK = "gpu-exporter: "
_LONGEST = 200
"""Characters of a reason; sinfo -R cuts it far earlier."""
_PATIENCE = 10.0
"""Seconds scontrol may take: with a dead controller it tries for 18."""
_STATE = re.compile(r"\bState=(\S+)")
_REASON = re.compile(r"\bReason=(.*?)(?: \[[^\]]*@[^\]]*\])?\s*$", re.MULTILINE)


class SlurmError(Exception):
    """One line on why Slurm could not be asked or told."""


class Act(enum.Enum):
    NOTHING = "nothing"
    DRAIN = "drain"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node as Slurm shows it: `IDLE+DRAIN`, and why."""

    state: str
    reason: str

    @property
    def drained(self) -> bool:
        return any(part in {"DRAIN", "DRAINED", "DRAINING"} for part in re.split(r"[+*]", self.state))

    @property
    def ours(self) -> bool:
        return self.reason.startswith(MARK)


def parse(text: str) -> NodeState:
    """The state in what `scontrol show node NAME` prints. Raises SlurmError."""
    state, reason = _STATE.search(text), _REASON.search(text)
    if not state:
        raise SlurmError(f"scontrol show node: no State in {text[:80]!r}")
    return NodeState(state[1], reason[1] if reason else "")


def decide(node: NodeState, *, failed: bool, reason: str) -> Act:
    """What to do. A node that someone else drained is left alone, whatever the verdict."""
    if failed:
        mine_and_new = node.ours and node.reason != reason
        return Act.DRAIN if not node.drained or mine_and_new else Act.NOTHING
    return Act.RESUME if node.drained and node.ours else Act.NOTHING


def reason_of(summary: str) -> str:
    """The reason as Slurm keeps it: one line, with the mark."""
    return (MARK + " ".join(summary.split()))[:_LONGEST]


Run = Callable[[Sequence[str]], str]


def scontrol(command: str) -> Run:
    """Calls that program. What it returns raises SlurmError."""

    def run(arguments: Sequence[str]) -> str:
        try:
            done = subprocess.run(  # noqa: S603 - the administrator's own scontrol
                [command, *arguments], capture_output=True, text=True, timeout=_PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            raise SlurmError(f"{command} does not answer within {_PATIENCE:g} s") from None
        except OSError as error:
            raise SlurmError(f"{command}: {error.strerror or error}") from None
        if done.returncode:
            said = " ".join((done.stderr or done.stdout).split())
            raise SlurmError(f"{command} {arguments[0]}: {said or f'status {done.returncode}'}")
        return done.stdout

    return run


def follow(node: str, *, failed: bool, summary: str, run: Run) -> Act:
    """Bring the node in step with the verdict; what was done. Raises SlurmError."""
    reason = reason_of(summary)
    act = decide(parse(run(["show", "node", node])), failed=failed, reason=reason)
    if act is Act.DRAIN:
        run(["update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}"])
    elif act is Act.RESUME:
        run(["update", f"NodeName={node}", "State=RESUME"])
    return act
