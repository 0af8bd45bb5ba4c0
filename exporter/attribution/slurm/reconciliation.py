"""Which jobs hold GPUs here on paper only: left by an epilog that never ran, by a reboot, by a cgroup nobody removed.

Only jobs that have been without a process in their cgroup for a while are looked into. slurmd's own steps are asked
first (`scontrol listpids`, which costs slurmctld nothing), slurmctld (`show job`) only about what they do not show.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping

from exporter.attribution.background_source import SourceError
from exporter.attribution.slurm.job import Job
from exporter.clock import NEVER, MonotonicClock, MonotonicTime, monotonic_time
from exporter.host import program
from exporter.host.text import lines

log = logging.getLogger(__name__)

SILENT_SECONDS = 10.0
"""A job begins by its prolog and ends by its epilog, and is without a process for so long at both."""
INTERVAL = 15.0
MAX_ASKED = 16
"""Questions to slurmctld in one round; the others' turn comes in the next."""
SETTINGS_SECONDS = 600.0
_TIMEOUT, _MAX_BYTES = 5.0, 1 << 20
_STEP = re.compile(r"^\s*-?[0-9]+\s+([0-9]{1,10})\s", re.MULTILINE)
_NO_STEP = re.compile(
    r"No job steps exist on this node\."
    r"|Unable to connect to slurmstepd: (Connection refused|No such file or directory)"
    r"|[\w.=+ ]+ does not exist on this node\."
)
"""What `scontrol listpids` says, and ends with status 1, where a node has no step, and of one that just ended or whose
slurmstepd was killed. Where it may not look it says more than that."""
_LIVE = frozenset({"CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"})


def runs(state: str) -> bool:
    """Whether a job in that state holds what it was given. One that is COMPLETING has ended: it is not billed."""
    words = set(re.findall(r"[A-Z_]+", state))
    return not words or (bool(words & _LIVE) and "COMPLETING" not in words)


class Scontrol:
    """What reconciliation asks scontrol beside jobs. Methods raise SourceError."""

    def __init__(self, command: str) -> None:
        self._command = command

    def steps(self) -> frozenset[str]:
        """Jobs of which a step runs here, the one that `PrologFlags=Contain` makes included."""
        done = self._listpids()
        answer = lines(done.errors.decode("utf-8", "replace"))
        unknown = [line for line in answer if not _NO_STEP.fullmatch(line)]
        if done.cut or (done.status and (unknown or not answer)):
            why = unknown[0][:200] if unknown else f"status {done.status}, {len(done.output)} bytes"
            raise SourceError(f"{self._command} listpids: {why}")
        return frozenset(_STEP.findall(done.output.decode("utf-8", "replace")))

    def settings(self) -> Mapping[str, str]:
        """slurm.conf as slurmctld has it."""
        try:
            text = program.output((self._command, "show", "config"), _TIMEOUT, _MAX_BYTES)
        except program.ProgramError as error:
            raise SourceError(str(error)) from None
        pairs = (line.partition("=") for line in lines(text) if "=" in line)
        return {name.strip(): value.strip() for name, _, value in pairs}

    def _listpids(self) -> program.Finished:
        try:
            return program.run((self._command, "listpids"), _TIMEOUT, _MAX_BYTES)
        except TimeoutError:
            raise SourceError(f"{self._command} listpids: no answer within {_TIMEOUT:g} s") from None
        except OSError as error:
            raise SourceError(f"{self._command}: {error.strerror or error}") from None


class Reconciliation:
    """Checks silent jobs in rounds. `watch` is given who is silent, `check` answers who of them has ended, and why."""

    def __init__(
        self, scontrol: Scontrol, ask: Callable[[str], Job | None], clock: MonotonicClock = monotonic_time
    ) -> None:
        self._scontrol = scontrol
        self._ask = ask
        self._clock = clock
        self._since: Mapping[str, MonotonicTime] = {}
        self._checked: dict[str, MonotonicTime] = {}
        self._ended: Mapping[str, str] = {}
        self._settings: Mapping[str, str] = {}
        self._settings_at = NEVER
        self._told = False
        """slurmd has named a step: it is this node's, and nowhere else than where scontrol looks."""

    def watch(self, silent: Collection[str]) -> None:
        """These jobs hold something here and have no process."""
        now = self._clock()
        self._since = {job: self._since.get(job, now) for job in silent}

    def check(self) -> Mapping[str, str]:
        """One round. Raises SourceError where slurmd cannot be asked."""
        now, since = self._clock(), self._since
        due = sorted(
            (job for job, at in since.items() if now - at >= SILENT_SECONDS),
            key=self._checked_at,
        )
        self._checked = {job: at for job, at in self._checked.items() if job in since}
        ended = {job: why for job, why in self._ended.items() if job in since}
        steps = self._scontrol.steps() if due else frozenset[str]()
        self._told = self._told or bool(steps)
        contained = bool(due) and self._told and "Contain" in self._setting("PrologFlags")
        for job in due[:MAX_ASKED]:
            self._checked[job] = now
            why = "" if job in steps else self._why(job, contained=contained)
            ended.pop(job, None)
            if why:
                ended[job] = why
        for job in ended.keys() - self._ended.keys():
            log.warning("job %s still has its prolog's file or its cgroup here but has ended: %s", job, ended[job])
        self._ended = ended
        return ended

    def _checked_at(self, job: str) -> MonotonicTime:
        return self._checked.get(job, NEVER)

    def _why(self, job: str, *, contained: bool) -> str:
        """Why a job without a step here has ended; empty where it has not, or nobody knows."""
        try:
            known = self._ask(job)
        except SourceError:
            return "slurmd has no step of it" if contained else ""
        if known is not None:
            return "" if runs(known.state) else f"slurmctld says {known.state}"
        hidden = "jobs" in self._setting("PrivateData")
        return "slurmd and slurmctld do not know it" if contained or not hidden else ""

    def _setting(self, name: str) -> str:
        if self._clock() - self._settings_at >= SETTINGS_SECONDS:
            self._settings_at = self._clock()
            try:
                self._settings = self._scontrol.settings()
            except SourceError:
                self._settings_at = self._clock() - (
                    SETTINGS_SECONDS - INTERVAL
                )  # what was known stands; again next round
        return self._settings.get(name, "")
