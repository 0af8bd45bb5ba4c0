"""Asking slurmctld for one job: by JSON where scontrol has it, else by text that the job's user cannot forge."""

from __future__ import annotations

import logging
from dataclasses import replace

from exporter.attribution.background_source import SourceError
from exporter.attribution.slurm.job import Job, parse_job, part_name
from exporter.attribution.slurm.job_json import parse_jobs
from exporter.host import program
from exporter.host.text import bounded, lines

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 5.0
MAX_BYTES = 4 << 20
"""An array of some thousand elements; a scontrol that reports more is ended."""
_SQUEUE = "%A|%u|%a|%P|%q|%T"
_SQUEUE_FIELDS = 6
_UNKNOWN = b"Invalid job id"


class ShowJob:
    """`show_job(id)` is what slurmctld reports of a job; None where it does not know it. Raises SourceError."""

    def __init__(self, command: str, timeout: float = TIMEOUT_SECONDS) -> None:
        self._command = command
        self._timeout = timeout
        self._json = True
        """Until scontrol shows that it is too old, or was built without."""

    def __call__(self, job: str) -> Job | None:
        if not self._json:
            return self._by_text(job)
        answer = self._run(self._command, "--json", "-d", "show", "job", job)
        if _UNKNOWN in answer.errors:
            return None
        try:
            known = parse_jobs(answer.output)
        except ValueError as error:
            by_text = self._by_text(job)  # raises where slurmctld is away: then JSON is tried again
            log.info("%s --json is not to be had: %s", self._command, error)
            self._json = answer.cut
            return by_text
        found = known.get(job)
        if found is None or found.gres is not None:
            return found
        by_text = self._by_text(job)
        return replace(found, gres=by_text.gres if by_text else None)

    def _by_text(self, job: str) -> Job | None:
        """The id of a first element is also the array's, as that of a first component is the job's: all are listed."""
        answer = self._show(job)
        text = answer.output.decode("utf-8", "replace")
        found = parse_job(text)
        if found is None and (name := part_name(text, job)):
            found = parse_job(self._show(name).output.decode("utf-8", "replace"))
        if found is not None and found.id == job:
            return found
        return self._by_squeue(job) if text.strip() else None

    def _by_squeue(self, job: str) -> Job | None:
        """Who the job is of, without any text that its user wrote; what it holds is not reported."""
        log.warning("job %s: scontrol's text can be read in two ways, asking squeue", job)
        folder, slash, name = self._command.rpartition("/")
        if name != "scontrol":
            return None
        answer = self._run(f"{folder}{slash}squeue", "-h", "-j", job, "-o", _SQUEUE)
        for line in lines(answer.output.decode("utf-8", "replace")):
            fields = [bounded(field) for field in line.split("|")]
            if len(fields) == _SQUEUE_FIELDS and fields[0] == job:
                _, user, account, partition, qos, state = fields
                return Job(job, _known(user), _known(account), partition, qos=_known(qos), state=state, gres=None)
        return None

    def _show(self, job: str) -> program.Finished:
        answer = self._run(self._command, "-o", "-d", "show", "job", job)
        if answer.status and not answer.cut and _UNKNOWN not in answer.errors:
            message = answer.errors.decode("utf-8", "replace").strip()[:200]
            raise SourceError(f"{self._command}: {message or answer.status}")
        return answer

    def _run(self, *command: str) -> program.Finished:
        try:
            return program.run(command, self._timeout, MAX_BYTES)
        except TimeoutError:
            raise SourceError(f"{command[0]}: no answer within {self._timeout:g} s") from None
        except OSError as error:
            raise SourceError(f"{command[0]}: {error}") from error


def _known(value: str) -> str:
    return "" if value in ("(null)", "N/A") else value
