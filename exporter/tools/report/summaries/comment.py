"""Writing a job's AdminComment into slurmdbd. slurmctld takes none for a job that is over."""

from __future__ import annotations

import logging

from exporter.host import program

log = logging.getLogger(__name__)

_TIMEOUT = 20.0


class CommentError(Exception):
    """One line: what was answered instead of yes."""


class Commenter:
    """Asks sacctmgr, which in some versions of Slurm (22.05) makes every letter small: no base64 survives that."""

    def __init__(self, sacctmgr: str = "sacctmgr", sacct: str = "sacct") -> None:
        self._sacctmgr = sacctmgr
        self._sacct = sacct
        self._exact: bool | None = None
        """Whether slurmdbd keeps a comment as it is; not known before the first one."""

    def write(self, name: str, comment: str, plain: str) -> None:
        """Raises CommentError. `plain` is the comment in words, for a Slurm that does not keep it.

        `name` is the job as users know it (4711_3): a raw id may be an array's too, and mean all its elements.
        """
        self._set(name, comment if self._exact is not False else plain)
        if self._exact is None:
            shown = self._output(self._sacct, "-n", "-X", "-P", "-j", name, "-o", "AdminComment").strip()
            self._exact = comment == comment.lower() or comment in shown
            if not self._exact:
                log.warning("this Slurm's sacctmgr makes letters small: comments are one line of text")
                self._set(name, plain)

    def _set(self, name: str, comment: str) -> None:
        where = ("where", f"jobid={name}", "set", f"AdminComment={comment}")
        self._output(self._sacctmgr, "-i", "modify", "job", *where)

    def _output(self, *command: str) -> str:
        try:
            return program.output(command, _TIMEOUT)
        except program.ProgramError as error:
            raise CommentError(str(error)) from None
