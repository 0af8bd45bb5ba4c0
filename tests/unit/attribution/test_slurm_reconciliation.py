"""Jobs that are on this node on paper only: who is asked about them, and what follows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from exporter.attribution.background_source import SourceError
from exporter.attribution.slurm.job import Job
from exporter.attribution.slurm.reconciliation import (
    INTERVAL,
    MAX_ASKED,
    RECHECK_SECONDS,
    SETTLE_SECONDS,
    Reconciliation,
    Scontrol,
    Steps,
    runs,
)
from exporter.core.clock import MonotonicTime

CONTAIN, ALLOC = (
    {"PrologFlags": "Alloc,Contain", "PrivateData": "none"},
    {"PrologFlags": "Alloc", "PrivateData": "none"},
)


class Asked(Scontrol):
    """Slurm's answers: its steps, its settings, and the jobs slurmctld knows; None where it is away."""

    def __init__(self, steps: set[str], settings: Mapping[str, str], jobs: Mapping[str, str] | None) -> None:
        super().__init__("scontrol")
        self.running, self.known, self.jobs = steps, settings, jobs
        self.questions: list[str] = []
        self.slurmd = True
        self.slurmd_questions = 0
        self.now = 0.0
        self.reconciliation = Reconciliation(
            self, self.ask, lambda job: not job.runs_on({"n1"}), lambda: MonotonicTime(self.now)
        )

    def steps(self) -> Steps:
        self.questions.append("steps")
        return Steps(frozenset(self.running), visible=bool(self.running))

    def slurmd_runs(self) -> bool:
        self.slurmd_questions += 1
        return self.slurmd

    def settings(self) -> Mapping[str, str]:
        if self.jobs is None:
            raise SourceError("no answer")
        return self.known

    def ask(self, job: str) -> Job | None:
        self.questions.append(job)
        if self.jobs is None:
            raise SourceError("no answer")
        state, _, nodes = self.jobs.get(job, "").partition(" on ")
        return Job(job, state=state, node_list=nodes) if job in self.jobs else None

    def after(self, *silent: str, seconds: float = SETTLE_SECONDS, programs: Collection[str] = ()) -> Mapping[str, str]:
        """Reasons of those that have ended; `programs` are the jobs that are not silent."""
        self.reconciliation.watch({*silent, *programs}, silent)
        self.now += seconds
        return {job: each.reason for job, each in self.reconciliation.check().items()}


@pytest.mark.parametrize(
    ("settings", "jobs", "ended"),
    [
        (CONTAIN, {"7": "RUNNING"}, False),
        (ALLOC, {"7": "RUNNING"}, False),
        (ALLOC, {"7": "SUSPENDED"}, False),
        (ALLOC, {"7": "COMPLETED"}, True),
        (ALLOC, {"7": "COMPLETING"}, True),
        (ALLOC, {"7": "PENDING"}, True),
        (ALLOC, {"7": "RUNNING on n[1-3]"}, False),
        (ALLOC, {"7": "RUNNING on n[2-3]"}, True),
        (ALLOC, {}, True),
        ({**ALLOC, "PrivateData": "accounts,jobs"}, {}, False),
        ({**CONTAIN, "PrivateData": "accounts,jobs"}, {}, True),
        (ALLOC, None, False),
    ],
)
def test_silent_job_has_ended_where_slurm_says_so(
    settings: Mapping[str, str],
    jobs: Mapping[str, str] | None,
    ended: bool,  # noqa: FBT001 - a parameter
) -> None:
    assert ("7" in Asked({"8"}, settings, jobs).after("7")) == ended


def test_job_with_a_step_here_is_nobodys_question() -> None:
    slurm = Asked({"7"}, CONTAIN, {})

    assert slurm.after("7") == {}
    assert slurm.questions == ["steps"]


def test_nothing_is_asked_while_no_job_is_silent_or_not_for_long() -> None:
    slurm = Asked(set(), CONTAIN, {})

    assert slurm.after() == {}
    assert slurm.after("7", seconds=SETTLE_SECONDS - 1) == {}
    assert (slurm.questions, slurm.slurmd_questions) == ([], 1)  # slurmd alone: it is lost only once it has answered


def test_slurmd_alone_decides_while_slurmctld_is_away() -> None:
    slurm = Asked({"6"}, CONTAIN, {"8": "RUNNING"})
    slurm.after("8")
    slurm.jobs = None
    slurm.running = set()

    assert set(slurm.after("7")) == {"7"}


@pytest.mark.parametrize("jobs", [None, {}])
def test_slurmd_that_never_told_of_a_step_decides_nothing_alone(jobs: Mapping[str, str] | None) -> None:
    """Maybe scontrol looks where this node's slurmd has none of its sockets."""
    assert Asked(set(), {**CONTAIN, "PrivateData": "jobs"}, jobs).after("7") == {}


def test_job_that_is_back_is_not_ended_any_more() -> None:
    slurm = Asked(set(), CONTAIN, {"7": "PENDING"})
    assert set(slurm.after("7")) == {"7"}
    slurm.jobs = {"7": "RUNNING"}

    assert slurm.after("7") == {}


def test_job_with_programs_and_no_step_has_ended_where_slurmctld_says_so() -> None:
    """As after a slurmstepd that was killed: nobody ended the job's programs."""
    slurm = Asked({"8"}, CONTAIN, {"7": "CANCELLED", "8": "RUNNING"})

    assert set(slurm.after(programs="78")) == {"7"}


@pytest.mark.parametrize("jobs", [None, {"7": "RUNNING"}])
def test_job_with_programs_and_no_step_stays_without_slurmctlds_word(jobs: Mapping[str, str] | None) -> None:
    assert Asked({"8"}, CONTAIN, jobs).after(programs="78") == {}


def test_job_with_programs_is_nobodys_question_where_slurmd_never_told_of_a_step() -> None:
    slurm = Asked(set(), CONTAIN, {})

    assert slurm.after(programs="7") == {}
    assert slurm.questions == ["steps"]


def test_ended_job_stays_ended_while_slurmctld_is_away() -> None:
    slurm = Asked({"8"}, ALLOC, {"7": "CANCELLED"})
    slurm.after("9", programs="78")
    slurm.jobs = None

    assert set(slurm.after("9", programs="78", seconds=RECHECK_SECONDS)) == {"7", "9"}


def test_requeued_job_with_a_step_here_again_is_not_ended() -> None:
    slurm = Asked({"8"}, CONTAIN, {"7": "RUNNING on n2"})
    assert set(slurm.after(programs="78")) == {"7"}
    slurm.jobs, slurm.running = {"7": "RUNNING on n1"}, {"7", "8"}

    assert slurm.after(programs="78") == {}


def test_job_with_a_step_has_ended_where_slurmctld_says_so_after_slurmd_is_lost() -> None:
    """As after kill -9 of slurmd: its steps go on, and Slurm runs the job elsewhere."""
    slurm = Asked({"7", "8"}, CONTAIN, {"7": "RUNNING on n2", "8": "RUNNING on n1"})
    assert slurm.after("7", programs="8") == {}
    slurm.slurmd = False

    assert set(slurm.after("7", programs="8", seconds=INTERVAL)) == {"7"}
    asked, lost_at = list[float](), slurm.now
    while slurm.now < lost_at + 200:
        slurm.questions.clear()
        slurm.after("7", programs="8", seconds=slurm.reconciliation.pause)
        asked += [slurm.now - lost_at] * slurm.questions.count("8")
    assert asked == [3, 6, 12, 24, 54, 99, 144, 189]


def test_job_that_had_just_begun_when_slurmd_was_lost_is_asked_about_in_the_first_round() -> None:
    slurm = Asked({"8"}, CONTAIN, {"7": "PENDING", "8": "RUNNING on n1"})
    assert slurm.after(programs="8") == {}
    slurm.slurmd = False

    assert set(slurm.after(programs="78", seconds=SETTLE_SECONDS / 2)) == {"7"}


def test_job_that_was_just_asked_about_is_asked_about_again_once_slurmd_is_lost() -> None:
    slurm = Asked({"8"}, CONTAIN, {"7": "RUNNING", "8": "RUNNING"})
    assert slurm.after("7", programs="8") == {}
    slurm.slurmd = False
    slurm.after("7", programs="8", seconds=1)
    assert slurm.questions == ["steps", "7", "steps", "8", "7"]

    slurm.jobs = {"7": "NODE_FAIL", "8": "PENDING"}  # slurmctld gives the node up a moment later
    assert set(slurm.after("7", programs="8", seconds=slurm.reconciliation.pause)) == {"7", "8"}
    slurm.slurmd = True
    slurm.after("7", programs="8")
    assert slurm.reconciliation.pause == INTERVAL


def test_job_whose_slurmd_is_lost_a_second_after_its_start_is_asked_about_at_once() -> None:
    slurm = Asked(set(), CONTAIN, {"7": "RUNNING"})

    assert slurm.reconciliation.watch(set(), set()) is False
    assert slurm.reconciliation.watch({"7"}, set()) is True
    assert slurm.after(programs="7", seconds=0) == {}
    slurm.slurmd, slurm.jobs = False, {"7": "PENDING"}
    assert set(slurm.after(programs="7", seconds=1)) == {"7"}
    assert slurm.reconciliation.watch({"7", "8"}, set()) is False


def test_round_is_due_once_when_the_process_of_slurmd_exits(tmp_path: Path) -> None:
    command, process = tmp_path / "scontrol", tmp_path / "4711"
    command.write_text("#!/bin/sh\nprintf 'Active Steps = NONE\\nSlurmd PID               = 4711\\n'\n")
    command.chmod(0o755)
    scontrol = Scontrol(str(command), tmp_path)

    assert (scontrol.slurmd_runs(), scontrol.slurmd_exited()) == (True, False)  # in another pid namespace
    process.mkdir()
    (process / "cmdline").write_text("/usr/sbin/slurmd\0-D\0")
    assert (scontrol.slurmd_runs(), scontrol.slurmd_exited()) == (True, False)
    (process / "cmdline").write_text("")  # a zombie
    assert [scontrol.slurmd_exited() for _ in range(2)] == [True, False]


def test_slurmd_that_never_answered_is_not_lost() -> None:
    """A container may not reach it."""
    slurm = Asked({"7"}, CONTAIN, {"7": "RUNNING on n2"})
    slurm.slurmd = False

    assert slurm.after("7") == {}


def test_stepless_job_that_runs_is_asked_about_seldom() -> None:
    """As an interactive allocation without PrologFlags=Contain, for days."""
    slurm = Asked({"8"}, ALLOC, {"7": "RUNNING"})
    for _ in range(int(600 / INTERVAL)):
        slurm.after("7", programs="8", seconds=INTERVAL)

    assert slurm.questions.count("7") <= 600 / RECHECK_SECONDS + 1


def test_contested_job_is_asked_about_although_it_has_a_step_and_then_seldom() -> None:
    slurm = Asked({"7", "8"}, CONTAIN, {"7": "RUNNING", "8": "RUNNING"})
    slurm.reconciliation.contest({"7", "8"})
    rounds = [slurm.after(programs="78") for _ in range(3)]

    assert (rounds, slurm.questions.count("7"), slurm.questions.count("8")) == ([{}] * 3, 1, 1)
    slurm.jobs = {"7": "COMPLETED", "8": "RUNNING"}
    assert set(slurm.after(programs="78", seconds=RECHECK_SECONDS)) == {"7"}
    slurm.reconciliation.contest(frozenset())
    assert set(slurm.after(programs="78")) == {"7"}


def test_questions_of_a_round_are_bounded_and_everyones_turn_comes() -> None:
    slurm = Asked(set(), CONTAIN, {})
    jobs = [str(number) for number in range(MAX_ASKED * 2)]
    first = slurm.after(*jobs)

    assert len(first) == MAX_ASKED
    assert set(slurm.after(*jobs)) == set(jobs)
    assert max(map(slurm.questions.count, jobs)) == 1


@pytest.mark.parametrize(
    ("state", "expected"),
    [("RUNNING", True), ("", True), ("COMPLETED+COMPLETING", False), ("RUNNING,COMPLETING", False), ("FAILED", False)],
)
def test_states(state: str, expected: bool) -> None:  # noqa: FBT001 - a parameter
    assert runs(state) is expected


def test_what_scontrol_prints_is_understood(tmp_path: Path) -> None:
    """As scontrol 22.05 prints it."""
    script = tmp_path / "scontrol"
    script.write_text(
        """#!/bin/sh
case $1 in
listpids) echo 'PID      JOBID    STEPID   LOCALID GLOBALID'
          echo '12591    1        0        0       0'
          echo '-1       5        extern   0       0'
          echo '12617    5        extern   -       -' ;;
*) echo 'PrivateData             = jobs,nodes'; echo 'PrologFlags             = Alloc,Contain' ;;
esac
"""
    )
    script.chmod(0o755)

    assert Scontrol(str(script)).steps() == Steps(frozenset({"1", "5"}), visible=True)
    assert Scontrol(str(script)).settings() == {"PrivateData": "jobs,nodes", "PrologFlags": "Alloc,Contain"}
    with pytest.raises(SourceError, match="nowhere"):
        Scontrol("/nowhere/scontrol").steps()


def _listpids(folder: Path, errors: str, status: int) -> Steps:
    """Of a node with a step of job 5, of which listpids says this as well."""
    script = folder / "scontrol"
    script.write_text(
        f"#!/bin/sh\necho 'PID      JOBID    STEPID   LOCALID GLOBALID'\necho '12617    5        extern   -       -'\n"
        f"printf '{errors}' >&2\nexit {status}\n"
    )
    script.chmod(0o755)
    return Scontrol(str(script)).steps()


@pytest.mark.parametrize(
    "errors",
    [
        "No job steps exist on this node.\\n",
        "Unable to connect to slurmstepd: Connection refused\\n",
        "StepId=7.extern does not exist on this node.\\nStepId=8.0 does not exist on this node.\\n",
    ],
)
def test_node_without_steps_and_steps_that_are_gone_are_an_answer(tmp_path: Path, errors: str) -> None:
    """All end with status 1. Were that a failure, a killed epilog's job would hold its GPUs until the next starts."""
    assert _listpids(tmp_path, errors, 1).jobs == {"5"}


@pytest.mark.parametrize(
    ("errors", "visible"),
    [
        ("No job steps exist on this node.", False),
        ("Unable to connect to slurmstepd: Connection refused", True),
        ("Unable to connect to slurmstepd: Bad file descriptor", True),  # Slurm 25.11
    ],
)
def test_steps_whose_slurmstepd_was_killed_show_that_scontrol_looks_in_the_right_place(
    tmp_path: Path, errors: str, *, visible: bool
) -> None:
    script = tmp_path / "scontrol"
    script.write_text(f"#!/bin/sh\necho 'PID      JOBID    STEPID   LOCALID GLOBALID'\necho '{errors}' >&2\nexit 1\n")
    script.chmod(0o755)

    assert Scontrol(str(script)).steps() == (frozenset(), visible)


@pytest.mark.parametrize(
    ("errors", "says"),
    [
        (
            "scontrol: error: /var/spool/slurmd: Permission denied\\nNo job steps exist on this node.\\n",
            "Permission denied",
        ),
        ("Unable to connect to slurmstepd: Permission denied\\n", "Permission denied"),
        ("", "status 1"),
    ],
)
def test_steps_that_may_not_be_looked_at_are_a_failure(tmp_path: Path, errors: str, says: str) -> None:
    with pytest.raises(SourceError, match=says):
        _listpids(tmp_path, errors, 1)


def test_round_asks_a_slurmctld_that_is_away_only_once_and_the_next_round_asks_about_the_others() -> None:
    slurm = Asked(set(), ALLOC, None)
    slurm.after("7", "8", "9")
    first = list(slurm.questions)
    slurm.jobs = {"7": "RUNNING", "8": "RUNNING", "9": "COMPLETED"}
    ended = slurm.after("7", "8", "9", seconds=INTERVAL)

    assert first[0] == "steps"
    assert len(first) == 1 + 1
    assert {*slurm.questions[len(first) :], first[1]} == {"steps", "7", "8", "9"}
    assert len(slurm.questions) == len(first) + 1 + 2
    assert set(ended) == {"9"} - {first[1]}
