"""Lines of scontrol as Slurm writes them, and as a user may try to make them look."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.slurm.job import Job, JobVariables, NodeGres, duration, hosts, indices, parse_job
from exporter.attribution.slurm.jobs import job_info
from exporter.core.printable import printable

LINE = (
    "JobId={id}{more} JobName={name} UserId=alice(1001) GroupId=users(100) MCS_label=N/A Priority=4294901758 Nice=0 "
    "Account={account} QOS=high JobState=RUNNING Reason=None Dependency=(null) Requeue=1 BatchFlag=1 Reboot=0 "
    "ExitCode=0:0 DerivedExitCode=0:0 RunTime=00:00:04 TimeLimit=1-02:03:04 TimeMin=N/A SubmitTime=2026-11-21T08:21:16 "
    "StartTime=2026-11-21T08:21:20 EndTime=Unknown Partition=gpu AllocNode:Sid=localhost:4328 NodeList=n[1-2] "
    "NumNodes=2 NumCPUs=16 NumTasks=8 CPUs/Task=2 JOB_GRES=gpu:fake:4 {groups} MinCPUsNode=1 Network=(null) "
    "Command=/home/alice/run.sh "
    "WorkDir=/home/alice Comment=mine"
)
TWO = "  Nodes=n[1-2] CPU_IDs=0-1 Mem=0 GRES=gpu:fake:2(IDX:0,3)"
APART = (
    " Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:a:1(IDX:2)   Nodes=n2 CPU_IDs=0-1 Mem=0 GRES=gpu:a:2(IDX:0-1),shard:3(IDX:5)"
)


def line(**values: str) -> str:
    return LINE.format(**{"id": "7", "more": "", "name": "train", "account": "physics", "groups": TWO, **values})


def test_fields_of_a_job() -> None:
    job = parse_job(line())

    assert job is not None
    assert (job.id, job.user, job.account, job.partition) == ("7", "alice", "physics", "gpu")
    assert (job.node_count, job.task_count) == (2, 8)
    assert [job.runs_on({node}) for node in ("n1", "n2", "n3")] == [True, True, False]
    assert (job.name, job.qos, job.state) == ("train", "high", "RUNNING")
    assert job.time_limit_seconds == 93784
    assert job.start_time == time.mktime((2026, 11, 21, 8, 21, 20, 0, 0, -1))
    assert job.gres == (NodeGres(frozenset({"n1", "n2"}), "gpu", 2, (0, 3)),)


def test_restarts_are_those_that_slurm_counts() -> None:
    again, never = parse_job(line().replace("Requeue=1", "Requeue=1 Restarts=2")), parse_job(line())

    assert again is not None
    assert never is not None
    assert (again.restarts, never.restarts) == (2, None)


def test_array_element_keeps_its_raw_id() -> None:
    job = parse_job(line(id="6", more=" ArrayJobId=4 ArrayTaskId=7"))

    assert job is not None
    assert (job.id, job.array_job, job.array_task) == ("6", "4", "7")


def test_element_of_an_array_with_a_limit_of_elements_at_once_is_a_job() -> None:
    """`--array=1-9%2`: Slurm has more fields between id and name than those that are asked for."""
    job = parse_job(
        LINE.format(id=6, more=" ArrayJobId=4 ArrayTaskId=7 ArrayTaskThrottle=2", name="x", account="a", groups=TWO)
    )

    assert job is not None
    assert (job.id, job.name, job.array_job, job.array_task) == ("6", "x", "4", "7")
    assert job.gres


def test_component_of_a_heterogeneous_job_is_a_job() -> None:
    job = parse_job(line(id="11", more=" HetJobId=10 HetJobOffset=1 HetJobIdSet=10-11"))

    assert job is not None
    assert job.id == "11"
    assert job.name == "train"


def test_null_is_not_a_name() -> None:
    job = parse_job(line(account="(null)"))

    assert job is not None
    assert job.account == ""


def test_node_holds_its_own_part_of_a_job() -> None:
    job = parse_job(line(groups=APART))

    assert job is not None
    assert job.allocation_on(frozenset({"n1"})) == (NodeGres(frozenset({"n1"}), "gpu", 1, (2,)),)
    assert [gres.name for gres in job.allocation_on(frozenset({"n2"}))] == ["gpu", "shard"]
    assert job.allocation_on(frozenset({"elsewhere"})) == ()


@pytest.mark.parametrize(
    ("gres", "allocated"),
    [
        ("shard:2(2/4,0/4,0/4)", [("shard", 2, (0,))]),
        ("shard:fake:6(0/4,4/4,2/4)", [("shard", 4, (1,)), ("shard", 2, (2,))]),
        ("mps:50(50/100,0/100)", [("mps", 50, (0,))]),
        ("gpu:a:1(IDX:0),shard:a:1(0/4,1/4)", [("gpu", 1, (0,)), ("shard", 1, (1,))]),
        ("shard:0(0/4,0/4)", []),
        ("shard:3(IDX:5)", [("shard", 3, (5,))]),
    ],
)
def test_parts_of_gpus_are_counted_by_gpu(gres: str, allocated: list[tuple[str, int, tuple[int, ...]]]) -> None:
    """As Slurm 24.11 writes them, by GPU and of how many; before, 22.05 named the GPUs."""
    job = parse_job(line(groups=f"  Nodes=n1 CPU_IDs=0 Mem=0 GRES={gres}"))

    assert job is not None
    assert [(each.name, each.amount, each.indices) for each in job.gres or ()] == allocated


def test_node_of_two_that_was_given_nothing_has_not_what_the_other_was_given() -> None:
    job = Job("7", node_count=2, gres=(NodeGres(frozenset({"n2"}), "gpu", 1, (2,)),))

    assert job.allocation_on(frozenset({"n1"})) == ()
    assert job.allocation_on(frozenset({"n2"})) == job.gres


def test_only_node_of_a_job_is_this_one_whatever_it_is_called() -> None:
    job = Job("7", gres=(NodeGres(frozenset({"n1"}), "gpu", 1, (2,)),))

    assert job.allocation_on(frozenset({"host.example.com"})) == job.gres


@pytest.mark.parametrize(
    "name",
    [
        "my job",
        "a Command=/bin/b",
        "a\nb",
        "x Account=rich y",
        "x  Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:8(IDX:0-7) y",
    ],
)
def test_name_that_looks_like_fields_is_a_name(name: str) -> None:
    job = parse_job(line(name=name))

    assert job is not None
    assert (job.name, job.user, job.account) == (printable(name), "alice", "physics")
    assert job.gres == (NodeGres(frozenset({"n1", "n2"}), "gpu", 2, (0, 3)),)


@pytest.mark.parametrize("name", ["a UserId=root(0) GroupId=root(0) b", "a\nJobId=8 JobName=b"])
def test_name_that_nothing_tells_from_slurms_own_text_is_refused(name: str) -> None:
    assert parse_job(line(name=name)) is None


@given(st.text(st.characters(blacklist_categories=["Cs"])))
def test_any_name_leaves_the_user_alone_or_hides_the_job(name: str) -> None:
    job = parse_job(line(name=name))

    assert job is None or (job.user, job.account, job.id) == ("alice", "physics", "7")


def test_numbers_without_end_cost_nothing() -> None:
    assert len(indices("9" * 5000)) <= 1024
    assert len(indices(",".join(["0-65535"] * 1000))) <= 1024
    assert len(hosts(",".join(["n[0-65535]"] * 100))) <= 2 * 65537
    assert len(hosts("n[0-65535][0-65535][0-65535]" * 9)) <= 65537
    assert duration("1" * 5000 + ":00:00") is None


@given(st.text())
def test_any_text_is_survived(text: str) -> None:
    parse_job(text)
    hosts(text)
    indices(text)
    duration(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n1", ("n1",)),
        ("n[1-3]", ("n1", "n2", "n3")),
        ("n[08-10,12]-ib", ("n08-ib", "n09-ib", "n10-ib", "n12-ib")),
        ("a,b[1-2],c", ("a", "b1", "b2", "c")),
        ("r[1-2]n[01-02],x", ("r1n01", "r1n02", "r2n01", "r2n02", "x")),
        ("r[1]n[2]-ib", ("r1n2-ib",)),
        ("/dev/nvidia[0-1],/dev/nvidia7", ("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia7")),
        ("", ()),
        ("n[5-1]", ()),
        ("n[0-99999999]", ()),
    ],
)
def test_host_lists(text: str, expected: tuple[str, ...]) -> None:
    assert hosts(text) == expected


@given(st.lists(st.integers(0, 300), max_size=10))
def test_index_lists_are_read_back(numbers: list[int]) -> None:
    assert indices(",".join(map(str, numbers))) == tuple(numbers)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("00:10:00", 600), ("1-00:00:01", 86401), ("UNLIMITED", None), ("Partition_Limit", None), ("", None)],
)
def test_durations(text: str, expected: float | None) -> None:
    assert duration(text) == expected


@pytest.mark.parametrize(
    "head",
    [
        "JobId=11 HetJobId=10 HetJobOffset=1 JobName=het HetJobIdSet=10-11",  # 22.05
        "JobId=11 HetJobId=10 HetJobOffset=1 HetJobIdSet=10-11 JobName=het",
        "JobId=11 SLUID=s0ABC HetJobId=10 HetJobOffset=1 Anything=new JobName=het",
    ],
)
def test_component_of_a_heterogeneous_job(head: str) -> None:
    found = parse_job(f"{head} UserId=alice(1000) GroupId=users(100) JobState=RUNNING Partition=gpu")

    assert found
    assert (found.id, found.name, found.het_job, found.het_offset) == ("11", "het", "10", "1")


@pytest.mark.parametrize(
    ("job", "said", "spread"),
    [
        (Job("7", node_count=2), None, True),
        (Job("7", node_count=1, task_count=8), None, False),
        (Job("7", task_count=8), None, True),
        (Job("7", node_count=1, het_job="6", het_offset="1"), None, True),
        (Job("7"), JobVariables(Job("7", node_count=4)), True),
        (None, JobVariables(Job("7", node_count=4)), True),
        (None, JobVariables(Job("7", task_count=1)), False),
        (None, None, False),
    ],
)
def test_job_has_ranks_elsewhere_by_its_nodes_else_by_its_tasks(
    job: Job | None, said: JobVariables | None, *, spread: bool
) -> None:
    assert job_info(job, said, "0", "exact").spread is spread
