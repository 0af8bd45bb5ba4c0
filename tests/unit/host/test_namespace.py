from pathlib import Path

import pytest

from exporter.host.namespace import absolute, own_cgroup

POD = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice/cri-containerd-a.scope"


@pytest.mark.parametrize(
    ("shown", "is_"),
    [
        ("0::/\n", f"0::{POD}\n"),
        (
            "0::/../../kubepods-besteffort-pod2.slice/cri-containerd-b.scope\n",
            "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod2.slice/cri-containerd-b.scope\n",
        ),
        ("0::/../../../../system.slice/ssh.service\n", "0::/system.slice/ssh.service\n"),
        ("4:memory:/../x\n0::/../../../..\n", "4:memory:/../x\n0::/\n"),
        ("", ""),
    ],
)
def test_path_is_told_from_the_hosts_root(shown: str, is_: str) -> None:
    assert absolute(shown, POD) == is_


def test_nothing_changes_on_the_host() -> None:
    assert absolute("0::/system.slice/x.service\n", "") == "0::/system.slice/x.service\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    host = tmp_path / "host"
    (host / "system.slice").mkdir(parents=True)
    (host / f"{POD[1:]}").mkdir(parents=True)
    (host / f"{POD[1:]}" / "cgroup.controllers").touch()
    (host / "cgroup.controllers").touch()
    return host


def test_own_cgroup_is_the_one_with_the_inode_of_ones_root(tree: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.symlink_to(tree / POD[1:])  # another way to the same directory, as a namespace's mount is

    assert own_cgroup(tree, mine) == POD


def test_whole_tree_version_1_and_nothing_there_say_nothing(tree: Path, tmp_path: Path) -> None:
    version_1 = tmp_path / "v1"
    (version_1 / "memory").mkdir(parents=True)

    assert own_cgroup(tree, tree) == ""
    assert own_cgroup(tree, version_1) == ""
    assert own_cgroup(tree, tmp_path / "missing") == ""
    assert own_cgroup(tmp_path / "missing", tree) == ""
