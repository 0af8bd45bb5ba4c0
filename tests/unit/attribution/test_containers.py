"""Names of containers from the files that Docker, Podman and containerd keep, and what a wrong file may cost."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from exporter.attribution.assembly.factory import Parts, attribution_of
from exporter.attribution.cgroup import Cgroup, parse_path
from exporter.attribution.containers.engines import Container
from exporter.attribution.containers.source import ContainerNames, Folders, _container_owner
from exporter.attribution.nomad.source import task_of
from exporter.attribution.owner import Owner
from tests.attribution_kit.nodes import CONTAINER_ID, cgroup, gpu, host_process, of

A = gpu(0)
ALLOCATION = "8c21e7b5-6a50-4e0b-9d6c-5f1a4a0f8d11"
COMPOSE = {"com.docker.compose.project": "vision", "com.docker.compose.service": "train"}
DOCKER, PODMAN, NERDCTL = f"/docker/{CONTAINER_ID}", f"/machine.slice/libpod-{CONTAINER_ID}.scope/container", ""
NERDCTL = f"/system.slice/nerdctl-{CONTAINER_ID}.scope"


def docker(folder: Path, name: str, labels: Any = None, **more: Any) -> None:
    """As dockerd 27 writes it, as far as it is read."""
    config = {"Hostname": "3f05ee050f82", "Image": "pytorch:2.4", "Env": ["TOKEN=secret"], "Labels": labels}
    document = {"ID": CONTAINER_ID, "Name": f"/{name}", "State": {"Running": True}, "Config": config, **more}
    path = folder / "docker/containers" / CONTAINER_ID / "config.v2.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


def podman(folder: Path, name: str, labels: Any = None) -> None:
    """As Podman 5 writes its database."""
    config = {"id": CONTAINER_ID, "name": name, "labels": labels or {}, "rootfsImageName": "docker.io/pytorch:2.4"}
    (folder / "podman").mkdir(exist_ok=True)
    with sqlite3.connect(folder / "podman/db.sql") as database:
        columns = "ID TEXT PRIMARY KEY NOT NULL, Name TEXT UNIQUE NOT NULL, PodID TEXT, JSON TEXT NOT NULL"
        database.execute(f"CREATE TABLE ContainerConfig({columns})")
        database.execute("INSERT INTO ContainerConfig VALUES(?, ?, NULL, ?)", (CONTAINER_ID, name, json.dumps(config)))
    database.close()


def podman_list(folder: Path, name: str) -> None:
    """As Podman 4.3.1 wrote it (`podman create` on Debian 12), but for ids and names: what there is before 4.8."""
    listed = [_listed("0" * 64, "other"), _listed(CONTAINER_ID, name)]
    path = folder / "podman/overlay-containers/containers.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(listed, separators=(",", ":")))


def _listed(identity: str, name: str) -> dict[str, Any]:
    image = "430c82b0d2dceb1d848b51dc29764c4f6dbceb2fd045fa44c42f0514f4fecebc"
    metadata = {"image-name": "localhost/pytorch:2.4", "image-id": image, "name": name, "created-at": 1795349974}
    return {
        "id": identity,
        "names": [name],
        "image": image,
        "layer": "9508c62ea3ad21d3122711147eb7a7738985ace74baefc3ebce8fd18e2560714",
        "metadata": json.dumps(metadata, separators=(",", ":")),
        "created": "2026-11-22T12:19:34.762042902Z",
        "flags": {"MountLabel": "", "ProcessLabel": ""},
    }


def bundle(folder: Path, identity: str, annotations: Any = None, namespace: str = "default") -> None:
    """As runc is started by containerd 1.7."""
    path = folder / f"containerd/io.containerd.runtime.v2.task/{namespace}/{identity}/config.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"ociVersion": "1.1.0", "process": {"args": ["python3"]}, "annotations": annotations}
    path.write_text(json.dumps(document))


def names(folder: Path, *, required: bool = False) -> ContainerNames:
    folders = Folders(folder / "docker", folder / "podman", folder / "containerd")
    return ContainerNames(folders, required=required)


def found(folder: Path, path: str) -> Container | None:
    return names(folder).find(parse_path(path))


def owner(folder: Path, path: str) -> tuple[str, str]:
    joined = attribution_of(Parts(containers=names(folder))).join(
        [A], {A.uuid: [7]}, of([host_process(7, cgroup(path))]), 1.0
    )
    return joined.processes[7].workload, joined.processes[7].container


def test_docker_container_goes_by_its_name(tmp_path: Path) -> None:
    docker(tmp_path, "trainer")

    assert owner(tmp_path, DOCKER) == ("docker:trainer", "trainer")
    assert owner(tmp_path, f"/custom/{CONTAINER_ID}") == ("docker:trainer", "trainer")


def test_containers_of_a_compose_service_are_one_workload_of_their_project(tmp_path: Path) -> None:
    docker(tmp_path, "vision-train-2", COMPOSE)
    attribution = attribution_of(Parts(containers=names(tmp_path)))

    ownership = attribution.join([A], {A.uuid: [7]}, of([host_process(7, cgroup(DOCKER))]), 1.0)

    (who,) = ownership.holders[A.uuid]
    assert (who.workload, who.container, who.kind) == ("compose:vision/train", "vision-train-2", "container")
    assert (ownership.info[who].part_of, ownership.info[who].image) == ("compose:vision", "pytorch:2.4")


def test_podman_tells_by_its_database(tmp_path: Path) -> None:
    podman(tmp_path, "vision_train_1", COMPOSE)

    assert owner(tmp_path, PODMAN) == ("compose:vision/train", "vision_train_1")


def test_podman_tells_by_its_list_where_the_database_does_not(tmp_path: Path) -> None:
    podman_list(tmp_path, "trainer")
    assert owner(tmp_path, PODMAN) == ("podman:trainer", "trainer")

    (tmp_path / "podman/db.sql").write_bytes(b"SQLite format 3\x00" + b"\xff" * 4096)
    assert owner(tmp_path, PODMAN) == ("podman:trainer", "trainer")


def test_nerdctl_tells_by_the_annotations_of_its_bundle(tmp_path: Path) -> None:
    bundle(tmp_path, CONTAINER_ID, {"nerdctl/name": "trainer", "nerdctl/namespace": "default"})

    assert owner(tmp_path, NERDCTL) == ("containerd:trainer", "trainer")
    assert owner(tmp_path, f"/default/{CONTAINER_ID}") == ("containerd:trainer", "trainer")


def test_container_of_ctr_goes_by_the_id_that_its_user_gave_it(tmp_path: Path) -> None:
    bundle(tmp_path, "gpu-test")

    assert owner(tmp_path, "/default/gpu-test") == ("containerd:gpu-test", "gpu-test")
    assert owner(tmp_path, "/other/gpu-test") == ("process:alice/python3", "")


def test_containers_of_the_kubelet_are_no_names_for_others(tmp_path: Path) -> None:
    bundle(tmp_path, CONTAINER_ID, {"nerdctl/name": "trainer"}, namespace="k8s.io")

    assert found(tmp_path, f"/default/{CONTAINER_ID}") is None


@pytest.mark.parametrize(
    ("labels", "allocation"),
    [
        ({}, ALLOCATION),
        ({"com.hashicorp.nomad.alloc_id": ALLOCATION}, ALLOCATION),
        ({"com.hashicorp.nomad.alloc_id": "another"}, ""),
    ],
)
def test_container_of_nomad_is_known_by_its_name(tmp_path: Path, labels: dict[str, str], allocation: str) -> None:
    docker(tmp_path, f"train-gpu-{ALLOCATION}", labels)

    told = found(tmp_path, DOCKER)

    assert told
    assert task_of(told) == ((allocation, "train-gpu") if allocation else None)


def test_rootless_containers_are_not_looked_up(tmp_path: Path) -> None:
    docker(tmp_path, "trainer")
    rootless = Cgroup(container=CONTAINER_ID, runtime="docker", delegated="user@1000.service")

    assert names(tmp_path).find(rootless) is None


@pytest.mark.parametrize(("delegated", "user"), [("user@1000.service", "ada"), ("", "")])
def test_container_of_a_users_own_engine_is_named_by_its_user(delegated: str, user: str) -> None:
    owner = _container_owner(Cgroup(container=CONTAINER_ID, runtime="docker", delegated=delegated), "ada", None)

    short = CONTAINER_ID[:12]
    named = f"docker:{user}/{short}" if user else f"docker:{short}"
    assert owner == Owner(named, kind="container", container=short, user=user)


HOSTILE = [
    b"",
    b"null",
    b"[]",
    b'{"Name": ["x"]}',
    b'{"Name": ""}',
    b'{"Name": "/x", "ID": "another"}',
    b'{"Name": "/x"' + b" " * (5 << 20) + b"}",
    b"[" * 100_000,
    b'{"Name": "/\xff\xfe"}',
]


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_file_that_is_not_dockers_costs_the_name_and_shows(tmp_path: Path, content: bytes) -> None:
    docker(tmp_path, "x")
    (tmp_path / "docker/containers" / CONTAINER_ID / "config.v2.json").write_bytes(content)
    known = names(tmp_path)

    assert known.find(parse_path(DOCKER)) is None
    assert [each.success for each in known.health()] == [False]


@pytest.mark.parametrize(
    "labels", [None, 7, [], {"com.docker.compose.project": 7}, {"com.docker.compose.project": "p"}]
)
def test_labels_of_another_kind_are_none(tmp_path: Path, labels: Any) -> None:
    docker(tmp_path, "trainer", labels)

    assert owner(tmp_path, DOCKER) == ("docker:trainer", "trainer")


def test_name_without_end_is_cut(tmp_path: Path) -> None:
    docker(tmp_path, "x" * 100_000)

    assert len(owner(tmp_path, DOCKER)[0]) < 300


def test_link_and_pipe_are_not_followed(tmp_path: Path) -> None:
    docker(tmp_path, "trainer")
    file = tmp_path / "docker/containers" / CONTAINER_ID / "config.v2.json"
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert found(tmp_path, DOCKER) is None

    file.unlink()
    os.mkfifo(file)
    assert found(tmp_path, DOCKER) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_file_of_another_user_is_not_believed(tmp_path: Path) -> None:
    docker(tmp_path, "trainer")
    podman(tmp_path, "trainer")
    os.chown(tmp_path / "docker/containers" / CONTAINER_ID / "config.v2.json", 1234, 1234)
    os.chown(tmp_path / "podman/db.sql", 1234, 1234)

    assert (found(tmp_path, DOCKER), found(tmp_path, PODMAN)) == (None, None)


def test_container_without_a_file_is_a_failure_only_where_names_must_be_there(tmp_path: Path) -> None:
    for known, healthy in ((names(tmp_path), True), (names(tmp_path, required=True), False)):
        assert list(known.health()) == []

        assert known.find(parse_path(DOCKER)) is None
        assert [each.success for each in known.health()] == [healthy]

        known.keep([])
        assert all(each.success for each in known.health())


def test_without_folders_nothing_is_read(tmp_path: Path) -> None:
    docker(tmp_path, "trainer")
    known = ContainerNames()

    assert (known.find(parse_path(DOCKER)), list(known.health())) == (None, [])
