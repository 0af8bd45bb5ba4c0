"""Whose quota a report takes: a container's, for there anybody may be any user."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.progress.processes import Accounts

HOST = "0 0 4294967295"
NAMESPACE = "0 1000 1\n1 100000 65536"
POD = "/kubepods/burstable/pod0aa1b2c3-d4e5-f607-1829-3a4b5c6d7e8f"
CONTAINER = "c" * 64
TASK = "6e6b4c1d-58bb-4d3b-9a0f-25b5a9a1a1aa.train.scope"
LOGIN = "/user.slice/user-1000.slice"


def account(folder: Path, cgroup: str, user: int = 1000, uid_map: str = HOST) -> str:
    (folder / "7").mkdir(parents=True)
    (folder / "7/cgroup").write_text(f"0::{cgroup}\n")
    (folder / "7/uid_map").write_text(f"{uid_map}\n")
    return Accounts(folder, folder / "cgroup").of(7, user, 0.0)


@pytest.mark.parametrize(
    "place",
    [
        f"{POD}/{CONTAINER}",
        f"/../../{POD.removeprefix('/kubepods/burstable/')}/{CONTAINER}",
        f"/system.slice/docker-{CONTAINER}.scope",
        f"/nomad.slice/share.slice/{TASK}",
        "/lxc.payload.guest/init.scope",
    ],
)
def test_whoever_a_program_becomes_in_a_container_is_one_account(tmp_path: Path, place: str) -> None:
    uid_map = "0 100000 65536" if "lxc" in place else HOST
    found = {account(tmp_path / str(user), place, user, uid_map) for user in (0, 1000, 1001)}

    assert len(found) == 1
    assert found.isdisjoint({"", "user 0", "user 1000", account(tmp_path / "other", f"{POD[:-1]}0/{CONTAINER}")})


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (f"{LOGIN}/session-2.scope", "user 1000"),
        (f"{LOGIN}/user@1000.service/user.slice/libpod-{CONTAINER}.scope/container", "user 1000"),
        ("/system.slice/slurmstepd.scope/job_42/step_0", "job 42"),
        ("/system.slice/cron.service", "cron.service"),
        ("/batch/7", "batch"),
        ("/", "/"),
    ],
)
def test_users_of_a_users_own_namespace_are_one_account(tmp_path: Path, place: str, expected: str) -> None:
    found = {account(tmp_path / str(user), place, user, NAMESPACE) for user in (1000, 100000, 165535)}

    assert found == {expected}


@pytest.mark.parametrize(
    "place",
    ["/", f"{LOGIN}/session-2.scope", "/system.slice/cron.service", "/system.slice/slurmstepd.scope/job_42/step_0"],
)
def test_outside_of_containers_the_kernel_says_who_it_is(tmp_path: Path, place: str) -> None:
    assert account(tmp_path, place, 1234) == "user 1234"


def test_one_that_has_ended_has_none(tmp_path: Path) -> None:
    assert not Accounts(tmp_path, tmp_path).of(7, 1000, 0.0)


def test_process_is_looked_at_again_after_a_second(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    accounts = Accounts(tmp_path, tmp_path / "cgroup")
    found: list[str] = []
    for place, now in ((POD, 0.0), ("/", 0.9), ("/", 1.0)):
        (tmp_path / "7/cgroup").write_text(f"0::{place}\n")
        found.append(accounts.of(7, 1000, now))

    assert found == [POD.rpartition("/pod")[2]] * 2 + ["user 1000"]
