"""Finding a cgroup that is only told relative to the reader's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.attribution.cgroup import absolute, parse, with_absolute_paths

ID = "3f05ee050f82c0145f1d88c94269c39dff0f07dbf8bba20aafd54b3a75dcaecc"
POD = "kubepods-burstable-pod2fc932ce_fdcc_454b_97bd_aadfdeb4c340.slice"
SCOPE = f"cri-containerd-{ID}.scope"
PLACE = f"/kubepods.slice/kubepods-burstable.slice/{POD}"


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    for path in (f"{PLACE}/{SCOPE}", "/system.slice/ssh.service", f"/kubepods/besteffort/podx/{ID}"):
        (tmp_path / path.lstrip("/")).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"/../../{POD}/{SCOPE}", f"{PLACE}/{SCOPE}"),
        (f"/../../../kubepods-burstable.slice/{POD}", PLACE),
        (f"/../../podx/{ID}", f"/kubepods/besteffort/podx/{ID}"),
        ("/../../../../system.slice/ssh.service", "/system.slice/ssh.service"),
        ("/../../../../system.slice/gone.service", ""),
        ("/..", ""),
        ("/../../a/../../b", ""),
        ("/system.slice/gone.service", "/system.slice/gone.service"),
        ("", ""),
    ],
)
def test_place_is_found_under_the_mount(mount: Path, path: str, expected: str) -> None:
    assert absolute(path, mount) == expected


def test_place_is_found_in_a_controller_of_version_1(tmp_path: Path) -> None:
    (tmp_path / "memory/kubepods/podx").mkdir(parents=True)

    assert absolute("/../podx", tmp_path) == "/kubepods/podx"


def test_all_paths_of_a_cgroup_are_placed_and_the_rest_stays(mount: Path) -> None:
    relative = parse(f"0::/../../{POD}/{SCOPE}\n")
    found = with_absolute_paths(relative, mount)

    assert (found.pod_path, found.container_path) == (PLACE, f"{PLACE}/{SCOPE}")
    assert (found.pod, found.container) == (relative.pod, relative.container)
