"""Jobs that have ended or run elsewhere, but left the prolog's file, a cgroup or processes on this node.

slurmd is asked for its steps first (`scontrol listpids`, which costs slurmctld nothing). slurmctld (`show job`) is
asked about jobs without a step, about jobs that contradict each other (two unshared allocations of one GPU), and about
all jobs once slurmd is lost: their steps go on, while Slurm may run the job elsewhere.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple

from exporter.attribution.background_source import SourceError
from exporter.attribution.slurm.job import Job
from exporter.attribution.slurm.scontrol import TIMEOUT_SECONDS, run
from exporter.core.clock import NEVER, MonotonicClock, MonotonicTime, UnixTime, monotonic_time, unix_time
from exporter.host import program
from exporter.host.text import lines, read_text

log = logging.getLogger(__name__)

SETTLE_SECONDS = 10.0
"""Time that a job may have no process or step, in its prolog and in its epilog."""
INTERVAL, SOON_SECONDS = 15.0, 3.0
RECHECK_SECONDS = 45.0
"""Time between two questions about a job: with INTERVAL, an ended job has its GPUs for another 60 s at most."""
MAX_ASKED = 16
"""Questions to slurmctld in one round; the others follow in the next."""
SETTINGS_SECONDS = 600.0
_SHOWN_NODES = 200
"""Characters of a node list in a log message."""
_STEP = re.compile(r"^\s*-?[0-9]+\s+([0-9]{1,10})\s", re.MULTILINE)
_NO_STEPS = "No job steps exist on this node."
_STEP_GONE = re.compile(
    r"Unable to connect to slurmstepd: (Connection refused|No such file or directory|Bad file descriptor)"
    r"|[\w.=+ ]+ does not exist on this node\."
)
"""Message of `scontrol listpids` about a step that just ended or whose slurmstepd was killed. The status is 1."""
_SLURMD_PID = re.compile(rb"^Slurmd PID\s*=\s*([0-9]+)", re.MULTILINE)
_LIVE = frozenset({"CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"})


def runs(state: str) -> bool:
    """Return whether a job in that state has its allocation. A COMPLETING job has ended: it is not billed."""
    words = set(re.findall(r"[A-Z_]+", state))
    return not words or (bool(words & _LIVE) and "COMPLETING" not in words)


class Steps(NamedTuple):
    """Jobs with a step here, and whether the node has, or just had, any step that scontrol can see."""

    jobs: frozenset[str]
    visible: bool


class Scontrol:
    """Questions to scontrol about steps and settings. Methods raise SourceError."""

    def __init__(self, command: str, procfs: Path = Path("/proc")) -> None:
        self._command = command
        self._procfs = procfs
        self._slurmd = ""
        """Command line file of the slurmd that answered last; empty where procfs does not show it."""

    def steps(self) -> Steps:
        """Return the steps of this node, the one that `PrologFlags=Contain` makes included."""
        done = run(self._command, "listpids")
        answer = lines(done.errors.decode("utf-8", "replace"))
        gone = [line for line in answer if _STEP_GONE.fullmatch(line)]
        unknown = [line for line in answer if line != _NO_STEPS and line not in gone]
        if done.cut or (done.status and (unknown or not answer)):
            why = unknown[0][:200] if unknown else f"status {done.status}, {len(done.output)} bytes"
            raise SourceError(f"{self._command} listpids: {why}")
        jobs = frozenset(_STEP.findall(done.output.decode("utf-8", "replace")))
        return Steps(jobs, bool(jobs or gone))

    def slurmd_runs(self) -> bool:
        """Return whether this node's slurmd answers; this costs slurmctld nothing."""
        try:
            done = run(self._command, "show", "slurmd")
        except SourceError:
            return False
        found = _SLURMD_PID.search(done.output)
        process = f"{self._procfs}/{found[1].decode()}/cmdline" if found else ""
        self._slurmd = process if process and "slurmd" in read_text(process) else ""
        return done.status == 0

    def slurmd_exited(self) -> bool:
        """Return whether the slurmd that answered last has exited, once."""
        exited = bool(self._slurmd) and not read_text(self._slurmd)
        if exited:
            self._slurmd = ""
        return exited

    def settings(self) -> Mapping[str, str]:
        """Return the settings of slurmctld's slurm.conf."""
        try:
            text = program.output((self._command, "show", "config"), TIMEOUT_SECONDS)
        except program.ProgramError as error:
            raise SourceError(str(error)) from None
        pairs = (line.partition("=") for line in lines(text) if "=" in line)
        return {name.strip(): value.strip() for name, _, value in pairs}


class Ended(NamedTuple):
    """Reason why a job has ended here, and whether it left running programs."""

    reason: str
    left_programs: bool
    asked_at: UnixTime


class Reconciliation:
    """Rounds of questions about jobs. `elsewhere` returns whether a job's node list is known to leave this node out."""

    def __init__(
        self,
        scontrol: Scontrol,
        ask: Callable[[str], Job | None],
        elsewhere: Callable[[Job], bool],
        clock: MonotonicClock = monotonic_time,
    ) -> None:
        self._scontrol = scontrol
        self._ask = ask
        self._elsewhere = elsewhere
        self._clock = clock
        self._present_since: Mapping[str, MonotonicTime] = {}
        self._silent_since: Mapping[str, MonotonicTime] = {}
        self._contested: AbstractSet[str] = frozenset()
        self._checked: dict[str, MonotonicTime] = {}
        self._ended: Mapping[str, Ended] = {}
        self._settings: Mapping[str, str] = {}
        self._settings_at = NEVER
        self._controller_away = False
        """True once a question of this round had no answer: the others of the round are not asked."""
        self._steps_visible = False
        """True once scontrol has seen a step: it looks in the folder of slurmd's sockets."""
        self._slurmd_seen = False
        """True once slurmd has answered: in a container, scontrol may not reach it."""
        self._lost_at = NEVER
        """Time when slurmd was found lost; NEVER while it answers."""

    def watch(self, present: Collection[str], silent: Collection[str]) -> bool:
        """Note the jobs with an allocation here, and those of them without a program of their own.

        Returns whether a round is due at once: slurmd has exited, or has its first jobs and is not known yet.
        """
        now = self._clock()
        first = bool(present) and not (self._present_since or self._slurmd_seen)
        self._present_since = {job: self._present_since.get(job, now) for job in {*present, *silent}}
        self._silent_since = {job: self._silent_since.get(job, now) for job in silent}
        return first or self._scontrol.slurmd_exited()

    @property
    def pause(self) -> float:
        """Seconds from one round to the next: at first short when slurmd is lost, then twice as long each time."""
        return min(INTERVAL, max(SOON_SECONDS, self._clock() - self._lost_at))

    def contest(self, jobs: AbstractSet[str]) -> None:
        """Note the jobs with a GPU that another job has too, without sharing."""
        self._contested = jobs

    def check(self) -> Mapping[str, Ended]:
        """Run one round and return the ended jobs. Raises SourceError if slurmd cannot be asked."""
        now, asked_at, self._controller_away = self._clock(), unix_time(), False
        present, silent, contested = self._present_since, self._silent_since, self._contested
        settled = {job for job, since in present.items() if now - silent.get(job, since) >= SETTLE_SECONDS}
        self._checked = {job: at for job, at in self._checked.items() if job in present}
        steps = self._scontrol.steps() if settled else Steps(frozenset(), visible=False)
        self._steps_visible = self._steps_visible or steps.visible
        stepless = {job for job in settled - steps.jobs if job in silent or self._steps_visible}
        ended = {job: each for job, each in self._ended.items() if job in present}
        left = {job for job, each in ended.items() if each.left_programs}
        lost = set(present) if present and self._slurmd_is_lost(now) else set[str]()
        doubtful = stepless | (contested & present.keys()) | left | lost
        # Of a lost slurmd at once, and soon again, as slurmctld gives its jobs up later.
        asked = {
            job for job in doubtful if now - self._checked_at(job) >= min(RECHECK_SECONDS, (now - self._lost_at) / 2)
        }
        asked |= {job for job in ended if job in steps.jobs or job not in left} - lost  # they may be back
        contained = bool(asked) and self._steps_visible and "Contain" in self._slurm_setting("PrologFlags")
        for job in sorted(sorted(asked), key=self._checked_at)[:MAX_ASKED]:
            if not self._controller_away:
                self._checked[job] = now
            why = self._why_ended(job, contained=contained and job not in steps.jobs and job in silent)
            if why:
                ended[job] = Ended(why, job not in silent, asked_at)
            elif why is not None:
                ended.pop(job, None)
        for job in ended.keys() - self._ended.keys():
            remains = "programs" if ended[job].left_programs else "its prolog's file or its cgroup"
            log.warning("job %s has ended here but left %s: %s", job, remains, ended[job].reason)
        self._ended = ended
        return ended

    def _slurmd_is_lost(self, now: MonotonicTime) -> bool:
        runs_now = self._scontrol.slurmd_runs()
        self._slurmd_seen = self._slurmd_seen or runs_now
        lost = self._slurmd_seen and not runs_now
        since = self._lost_at if self._lost_at > NEVER else now
        self._lost_at = since if lost else NEVER
        return lost

    def _checked_at(self, job: str) -> MonotonicTime:
        return self._checked.get(job, NEVER)

    def _why_ended(self, job: str, *, contained: bool) -> str | None:
        """Return why a job has ended here; empty if it has not; None if slurmctld is unreachable in this round.

        `contained`: if the job ran, it would have a step and a program.
        """
        try:
            known = None if self._controller_away else self._ask(job)
        except SourceError:
            known, self._controller_away = None, True
        if self._controller_away:
            return "slurmd has no step of it" if contained else None
        if known is not None:
            if not runs(known.state):
                return f"slurmctld says {known.state}"
            return f"slurmctld says it runs on {known.node_list[:_SHOWN_NODES]}" if self._elsewhere(known) else ""
        hidden = "jobs" in self._slurm_setting("PrivateData")
        return "slurmd and slurmctld do not know it" if contained or not hidden else ""

    def _slurm_setting(self, name: str) -> str:
        if self._clock() - self._settings_at >= SETTINGS_SECONDS:
            self._settings_at = self._clock()
            try:
                self._settings = self._scontrol.settings()
            except SourceError:
                self._settings_at += INTERVAL - SETTINGS_SECONDS  # asked again in the next round
        return self._settings.get(name, "")
