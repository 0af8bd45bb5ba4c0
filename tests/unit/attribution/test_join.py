"""Who runs and who holds: one cycle at a time, from what the sources last said."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.assembly.factory import Parts, attribution_of
from exporter.attribution.containers.source import ContainerNames, Folders
from exporter.attribution.join import LAST_OWNER_SECONDS, weights
from exporter.attribution.owner import NOBODY, Owner
from tests.attribution_kit.nodes import CONTAINER_ID, cgroup, gpu, host_process, of

A = gpu(0)
SHORT_ID = CONTAINER_ID[:12]


# Processes of the host itself


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/system.slice/jupyter.service", Owner("unit:jupyter.service", "unit", user="alice")),
        ("/user.slice/user-1000.slice/session-18.scope", Owner("unit:alice/session-18.scope", "unit", user="alice")),
        (f"/docker/{CONTAINER_ID}", Owner(f"docker:{SHORT_ID}", "container", container=SHORT_ID)),
        (
            f"/machine.slice/libpod-{CONTAINER_ID}.scope/container",
            Owner(f"podman:{SHORT_ID}", "container", container=SHORT_ID),
        ),
        (f"/default/{CONTAINER_ID}", Owner(f"container:{SHORT_ID}", "container", container=SHORT_ID)),
        ("/", Owner("process:alice/python3", "process", user="alice")),
        ("/lxc.payload.guest/system.slice/vllm.service", Owner("lxc:guest", "container", container="guest")),
        (
            "/machine.slice/machine-web\\x2d1.scope/payload/system.slice/vllm.service",
            Owner("machine:web-1", "container", container="web-1"),
        ),
        ("/machine.slice/systemd-nspawn@g.service/payload", Owner("machine:g", "container", container="g")),
        (
            f"/lxc.payload.guest/system.slice/docker-{CONTAINER_ID}.scope",  # its id means nothing outside of the guest
            Owner("lxc:guest", "container", container="guest"),
        ),
        ("/lxc/a-longer-name/ns/init.scope", Owner("lxc:a-longer-name", "container", container="a-longer-name")),
    ],
)
def test_process_outside_any_scheduler_belongs_to_its_container_unit_or_self(path: str, expected: Owner) -> None:
    ownership = attribution_of(Parts()).join([A], {A.uuid: [7]}, of([host_process(7, cgroup(path))]), 1.0)

    assert ownership.processes == {7: expected}
    assert ownership.holders == {A.uuid: (expected,)}


def test_docker_container_goes_by_its_name_where_docker_tells(tmp_path: Path) -> None:
    folder = tmp_path / "containers" / CONTAINER_ID
    folder.mkdir(parents=True)
    (folder / "config.v2.json").write_text('{"Name": "/trainer", "Config": {}}')
    joined = attribution_of(Parts(containers=ContainerNames(Folders(docker=tmp_path))))

    ownership = joined.join([A], {A.uuid: [7]}, of([host_process(7, cgroup(f"/docker/{CONTAINER_ID}"))]), 1.0)

    assert ownership.processes[7].workload == "docker:trainer"


def test_free_gpu_has_no_holder() -> None:
    assert attribution_of(Parts()).join([A], {}, {}, 1.0).holders == {}


# Processes that come and go


def test_process_that_proc_no_longer_shows_keeps_its_owner_for_a_while() -> None:
    joined = attribution_of(Parts())
    process = host_process(7, cgroup("/system.slice/a.service"))
    owner = joined.join([A], {A.uuid: [7]}, of([process]), 100.0).processes[7]

    soon = joined.join([A], {A.uuid: [7]}, {}, 101.0)
    late = joined.join([A], {A.uuid: [7]}, {}, 101.0 + LAST_OWNER_SECONDS)

    assert (soon.processes, soon.holders) == ({7: owner}, {A.uuid: (owner,)})
    assert (late.processes, late.holders) == ({7: NOBODY}, {})


def test_process_that_was_never_seen_is_nobodys() -> None:
    assert attribution_of(Parts()).join([A], {A.uuid: [7]}, {}, 1.0).processes == {7: NOBODY}


def test_reused_pid_belongs_to_who_has_it_now() -> None:
    joined = attribution_of(Parts())
    joined.join([A], {A.uuid: [7]}, of([host_process(7, cgroup("/system.slice/a.service"))]), 1.0)

    again = joined.join([A], {A.uuid: [7]}, of([host_process(7, cgroup("/system.slice/b.service"))]), 2.0)

    assert again.processes[7].workload == "unit:b.service"


@pytest.mark.parametrize(("away", "whose"), [(5.0, "unit:a.service"), (LAST_OWNER_SECONDS, "")])
def test_dead_process_that_is_listed_again_is_its_last_owners_for_a_while(away: float, whose: str) -> None:
    joined = attribution_of(Parts())
    joined.join([A], {A.uuid: [7]}, of([host_process(7, cgroup("/system.slice/a.service"))]), 1.0)
    joined.join([A], {}, {}, 2.0)

    assert joined.join([A], {A.uuid: [7]}, {}, 2.0 + away).processes[7].workload == whose


# Cgroups


def test_cgroup_shared_by_two_owners_is_nobodys_own() -> None:
    session = cgroup("/user.slice/user-1000.slice/session-1.scope")
    processes = of([host_process(7, session, "alice"), host_process(8, session, "root")])

    ownership = attribution_of(Parts()).join([A], {A.uuid: [7, 8]}, processes, 1.0)

    assert len(set(ownership.processes.values())) == 2
    assert ownership.cgroups == {}


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("/system.slice/cron.service", False),
        ("/system.slice/ssh.service", False),
        ("/system.slice/condor.service", False),
        ("/system.slice/supervisor.service", False),
        ("/init.scope", False),
        ("/user.slice/user-1000.slice/session-1.scope", True),
        ("/system.slice/jupyter.service", True),
    ],
)
def test_cgroup_in_which_many_people_start_things_is_nobodys_own(path: str, *, own: bool) -> None:
    ownership = attribution_of(Parts()).join([A], {A.uuid: [7]}, of([host_process(7, cgroup(path))]), 1.0)

    assert list(ownership.cgroups.values()) == ([path] if own else [])


# Parts


@given(st.dictionaries(st.sampled_from("abc"), st.none() | st.floats(0.1, 100)), st.lists(st.sampled_from("abcdef")))
def test_parts_of_a_held_target_sum_to_one(given_: dict[str, float | None], runners: list[str]) -> None:
    parts = weights(given_, runners)

    assert sum(parts.values()) == pytest.approx(1 if given_ or runners else 0)
    assert set(parts) == {*given_, *runners}
    assert not given_ or all(parts[runner] == 0 for runner in runners if runner not in given_)
