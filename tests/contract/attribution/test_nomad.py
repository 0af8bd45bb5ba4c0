"""Nomad's tasks by their local agent, over real HTTP: names, GPUs, who has none, and what a wrong answer may cost."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exporter.attribution.assembly.factory import Parts, attribution_of
from exporter.attribution.background_source import LAST_KNOWN_SECONDS
from exporter.attribution.containers.source import ContainerNames, Folders
from exporter.attribution.join import SETTLE_SECONDS, Attribution
from exporter.attribution.nomad.source import SOURCE, Agent, AgentPoller
from exporter.attribution.owner import NOBODY, Owner, Ownership, WorkloadInfo
from exporter.attribution.source import HOLD_SECONDS
from tests.attribution_kit.nodes import cgroup, gpu, host_process, of
from tests.attribution_kit.nomad_agent import ALLOCATION, NODE, NomadAgent, allocation, node
from tests.unit.attribution.test_containers import DOCKER, docker

A, B = gpu(0), gpu(1)
TRAIN = Owner("nomad:default/train", "nomad", namespace="default", container="main-8c21e7b5")
SCOPE = f"/nomad.slice/share.slice/{ALLOCATION}.{{}}.scope"


@pytest.fixture
def agent() -> Iterator[NomadAgent]:
    with NomadAgent() as started:
        yield started


def told(agent: NomadAgent) -> AgentPoller:
    source = AgentPoller(Agent(agent.url), clock=lambda: 0.0)
    source.ask_once()
    return source


def passed(joined: Attribution, now: float, **pids: str) -> Ownership:
    """One cycle; a process on GPU `a` or `b` in the cgroup given."""
    targets = {"a": A, "b": B}
    processes = {targets[name].uuid: [number] for number, name in enumerate(pids, 7)}
    hosts = of([host_process(number, cgroup(path)) for number, path in enumerate(pids.values(), 7)])
    return joined.join([A, B], processes, hosts, now)


def test_task_goes_by_its_job_and_holds_what_nomad_gave_it(agent: NomadAgent) -> None:
    agent.runs(allocation("train", {"main": [A.uuid], "idle": [B.uuid]}))

    ownership = passed(attribution_of(Parts(nomad=told(agent))), 1.0, a=SCOPE.format("main"))

    idle = Owner("nomad:default/train", "nomad", namespace="default", container="idle-8c21e7b5")
    assert ownership.holders == {A.uuid: (TRAIN,), B.uuid: (idle,)}
    assert ownership.info[TRAIN] == WorkloadInfo(owner_kind="batch", restarts=2)
    assert ownership.cgroups[TRAIN] == SCOPE.format("main")
    assert [(each.source, each.success) for each in ownership.health] == [("cgroup", True), ("nomad", True)]


def test_run_of_a_periodic_job_is_part_of_it(agent: NomadAgent) -> None:
    run = "nightly/periodic-1700000000"
    agent.runs(allocation(run, {"main": [A.uuid]}, Job={"Type": "batch", "ParentID": "nightly"}, Namespace="ml"))

    ownership = passed(attribution_of(Parts(nomad=told(agent))), 1.0)

    (who,) = ownership.holders[A.uuid]
    assert (who.workload, ownership.info[who].part_of) == (f"nomad:ml/{run}", "nomad:ml/nightly")


def test_task_in_a_docker_container_is_the_same_task(agent: NomadAgent, tmp_path: Path) -> None:
    agent.runs(allocation("train", {"main": [A.uuid]}))
    docker(tmp_path, f"main-{ALLOCATION}", {"com.hashicorp.nomad.alloc_id": ALLOCATION})
    names = ContainerNames(Folders(tmp_path / "docker"))

    ownership = passed(attribution_of(Parts(nomad=told(agent), containers=names)), 1.0, a=DOCKER)

    assert ownership.holders == {A.uuid: (TRAIN,)}


def test_cgroup_that_a_job_of_slurm_names_like_a_task_is_no_task(agent: NomadAgent) -> None:
    """Its user made it."""
    agent.runs(allocation("train", {"main": [B.uuid]}))
    forged = f"/system.slice/slurmstepd.scope/job_7/step_0/user{SCOPE.format('main')}"

    ownership = passed(attribution_of(Parts(nomad=told(agent))), 1.0, a=forged)

    assert ownership.processes[7].workload == "slurm:7"
    assert TRAIN not in ownership.cgroups


def test_task_without_the_device_is_named(agent: NomadAgent) -> None:
    agent.runs(allocation("train", {"main": [A.uuid], "aside": []}))
    agent.offers(A.uuid, B.uuid)
    joined = attribution_of(Parts(nomad=told(agent)))
    paths = {"a": SCOPE.format("aside"), "b": SCOPE.format("aside")}

    at_once = passed(joined, 1.0, **paths)
    later = passed(joined, 1.0 + SETTLE_SECONDS, **paths)

    aside = Owner("nomad:default/train", "nomad", namespace="default", container="aside-8c21e7b5")
    assert at_once.unallocated == {}
    assert later.unallocated == {A.uuid: {aside}, B.uuid: {aside}}


def test_task_that_the_agent_has_not_told_of_waits_for_its_name_and_then_goes_by_its_id(agent: NomadAgent) -> None:
    joined = attribution_of(Parts(nomad=told(agent)))

    at_once = passed(joined, 100.0, a=SCOPE.format("main"))
    later = passed(joined, 100.0 + HOLD_SECONDS, a=SCOPE.format("main"))

    assert at_once.processes == {7: NOBODY}
    assert later.processes == {7: Owner("nomad:8c21e7b5", "nomad", container="main-8c21e7b5")}
    assert later.info[later.processes[7]].trust == "inferred"


def test_task_goes_by_its_id_where_no_agent_is_asked() -> None:
    joined = attribution_of(Parts())
    ownership = passed(joined, 1.0, a=SCOPE.format("main"))

    assert ownership.processes == {7: Owner("nomad:8c21e7b5", "nomad", container="main-8c21e7b5")}
    assert passed(joined, 100.0, a=SCOPE.format("main")).unallocated == {}


def test_what_the_agent_said_counts_for_a_while_after_it_fell_silent(agent: NomadAgent) -> None:
    agent.runs(allocation("train", {"main": [A.uuid]}))
    source = told(agent)
    agent.answers.clear()
    source.ask_once()
    joined = attribution_of(Parts(nomad=source))

    soon = passed(joined, LAST_KNOWN_SECONDS)
    late = passed(joined, LAST_KNOWN_SECONDS + 1, b=SCOPE.format("main"))
    later = passed(joined, LAST_KNOWN_SECONDS + 1 + SETTLE_SECONDS, a=SCOPE.format("main"), b=SCOPE.format("main"))

    assert soon.holders == {A.uuid: (TRAIN,)}
    assert [(each.source, each.success) for each in soon.health] == [("nomad", False)]
    assert A.uuid not in late.holders
    assert later.unallocated == {}


@pytest.mark.parametrize("silent", [True, False])
def test_running_task_keeps_its_name(agent: NomadAgent, *, silent: bool) -> None:
    """The agent is away for long, or has ended the allocation and a process of it lingers."""
    agent.runs(allocation("train", {"main": [A.uuid]}))
    source = told(agent)
    joined = attribution_of(Parts(nomad=source))
    before = passed(joined, 1.0, a=SCOPE.format("main"))
    agent.runs()
    if silent:
        agent.answers.clear()
    source.ask_once()
    late = passed(joined, LAST_KNOWN_SECONDS + 1, a=SCOPE.format("main"))

    assert before.processes == late.processes == {7: TRAIN}
    assert before.info == late.info


def test_token_is_read_for_each_question(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    with NomadAgent("first") as agent:
        source = AgentPoller(Agent(agent.url, file))
        source.ask_once()
        assert source.health(SOURCE, 0.0).success

        agent.token = "second"  # noqa: S105 - of a server on this machine, for this test
        source.ask_once()
        assert not source.health(SOURCE, 0.0).success
        assert "403" in source.answer.error

        file.write_text("second\n")
        source.ask_once()
        assert source.health(SOURCE, 0.0).success


ODD: list[Any] = [
    b"",
    b"<html>",
    b"null",
    b"{}",
    b"[" * 100_000,
    b'"text"',
    b"\xff\xfe",
]


@pytest.mark.parametrize("content", ODD, ids=range(len(ODD)))
def test_answer_that_is_none_is_a_failure_of_the_source(agent: NomadAgent, content: bytes) -> None:
    agent.answers[f"/v1/node/{NODE}/allocations"] = content
    source = told(agent)

    assert not source.health(SOURCE, 0.0).success
    assert source.report(0.0).tasks == {}


@pytest.mark.parametrize(
    "odd",
    [
        7,
        {},
        {"ID": ALLOCATION},
        allocation("", {"main": []}),
        allocation("train", {"main": []}, AllocatedResources=[]),
        allocation("train", {"main": []}, AllocatedResources={"Tasks": {"main": {"Devices": [{"Type": "gpu"}]}}}),
        allocation("train", {"main": ["../../etc", "GPU-1", ""]}),
        allocation("train", {"main": []}, TaskStates={"main": {"Restarts": "many"}}, Job=None),
        allocation("train", {"main": [A.uuid]}, status="complete"),
        allocation("x" * 100_000, {"y" * 100_000: []}),
    ],
)
def test_odd_allocation_holds_nothing_and_spoils_no_other(agent: NomadAgent, odd: Any) -> None:
    agent.runs(odd, allocation("serve", {"main": [B.uuid]}, "11111111-6a50-4e0b-9d6c-5f1a4a0f8d11"))

    ownership = passed(attribution_of(Parts(nomad=told(agent))), 1.0)

    assert {uuid: owner.workload for uuid, (owner,) in ownership.holders.items()} == {B.uuid: "nomad:default/serve"}
    assert all(len(owner.workload) < 600 for owner in ownership.info)


def test_agent_that_is_no_client_or_not_there_is_a_failure(agent: NomadAgent) -> None:
    agent.answers["/v1/agent/self"] = {"stats": {"nomad": {}}}
    assert "not a Nomad client" in told(agent).answer.error

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        source = AgentPoller(Agent(f"http://127.0.0.1:{free.getsockname()[1]}"))
        source.ask_once()
    assert not source.health(SOURCE, 0.0).success


def test_agent_that_comes_back_as_another_client_is_asked_anew(agent: NomadAgent) -> None:
    """Its data directory was lost: Nomad gives the node another id."""
    source, other = told(agent), NODE.replace("4d2b", "5e3c")
    train = allocation("train", {"main": [A.uuid]})
    agent.answers = {
        "/v1/agent/self": {"stats": {"client": {"node_id": other}}},
        f"/v1/node/{other}": node([]),
        f"/v1/node/{other}/allocations": [train],
    }
    source.ask_once()
    failed = source.answer.error
    source.ask_once()

    assert "node not found" in failed
    assert [task.job for task in source.report(0.0).tasks.values()] == ["train"]


@pytest.mark.parametrize("refused", [True, False])
def test_agent_restarted_as_another_client_is_asked_for_its_own_allocations(
    agent: NomadAgent, monkeypatch: pytest.MonkeyPatch, *, refused: bool
) -> None:
    """Nomad knows the node of the old id for a day, as one that is down and runs nothing."""
    source, other = told(agent), NODE.replace("4d2b", "5e3c")
    train = allocation("train", {"main": [A.uuid]})
    agent.answers |= {
        "/v1/agent/self": {"stats": {"client": {"node_id": other}}},
        f"/v1/node/{other}": node([]),
        f"/v1/node/{other}/allocations": [train],
    }
    if refused:
        with monkeypatch.context() as restart:
            restart.setattr(Agent, "get", lambda *_: (_ for _ in ()).throw(ConnectionRefusedError))
            source.ask_once()
    for _ in range(1 if refused else 30):
        source.ask_once()

    assert [task.job for task in source.report(0.0).tasks.values()] == ["train"]


def test_answer_without_end_is_given_up(agent: NomadAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exporter.attribution.nomad.source.MAX_BYTES", 1 << 16)
    agent.answers[f"/v1/node/{NODE}/allocations"] = b" " * (1 << 18)

    assert "more than" in told(agent).answer.error
