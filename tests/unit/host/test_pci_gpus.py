"""GPUs on the PCI bus: those that NVIDIA's driver of this host should show."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.host.rdma import DeviceFiles, pci_gpus
from tests.unit.host.rdma_tree import pci_device

_BUS = "pci0000:15/0000:15:01.0"


def _gpu(sysfs: Path, address: str) -> Path:
    folder = pci_device(sysfs, f"{_BUS}/{address}")
    for name, text in (("vendor", "0x10de"), ("class", "0x030200")):
        (folder / name).write_text(f"{text}\n")
    return folder


@pytest.mark.parametrize(
    ("driver", "counted"),
    [("nvidia", 2), ("nouveau", 2), ("vfio-pci", 1), ("nvgrace_gpu_vfio_pci", 1), ("pci-stub", 1)],
)
def test_gpu_that_is_kept_for_a_virtual_machine_is_not_missing(driver: str, counted: int, tmp_path: Path) -> None:
    (tmp_path / "bus/pci/drivers" / driver).mkdir(parents=True)
    _gpu(tmp_path, "0000:18:00.0")
    (_gpu(tmp_path, "0000:19:00.0") / "driver").symlink_to(tmp_path / "bus/pci/drivers" / driver)

    assert pci_gpus(tmp_path) == counted


def test_virtual_functions_of_a_gpu_are_no_gpus(tmp_path: Path) -> None:
    whole = _gpu(tmp_path, "0000:18:00.0")
    (_gpu(tmp_path, "0000:18:00.4") / "physfn").symlink_to(whole)

    assert pci_gpus(tmp_path) == 1


def test_gpu_that_no_driver_has_taken_is_missing(tmp_path: Path) -> None:
    _gpu(tmp_path, "0000:18:00.0")

    assert pci_gpus(tmp_path) == 1


@pytest.mark.parametrize(
    ("mounted", "files", "denied", "visible", "counted"),
    [
        ("tmpfs", 0, 0, "", 4),
        ("tmpfs", 2, 0, "", 2),
        ("tmpfs", 4, 0, "", 4),
        ("tmpfs", 8, 0, "", 4),
        ("tmpfs", 4, 3, "", 1),
        ("tmpfs", 4, 4, "", 4),
        ("tmpfs", 2, 0, "0,1", 2),
        ("tmpfs", 3, 0, "all", 4),
        ("tmpfs", 3, 0, "management.nvidia.com/gpu=all", 4),
        ("devtmpfs", 3, 0, "", 4),
        ("devtmpfs", 4, 2, "", 2),
        ("devtmpfs", 3, 1, "", 3),
    ],
)
def test_container_counts_the_gpus_it_was_given(  # noqa: PLR0913, PLR0917 - what a runtime chooses
    mounted: str, files: int, denied: int, visible: str, counted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sysfs is the host's. In the host's own /dev a missing file is a GPU that no driver could take."""
    for device in range(4):
        _gpu(tmp_path, f"0000:1{device}:00.0")
    devices, mounts = tmp_path / "dev", tmp_path / "mounts"
    devices.mkdir()
    for name in ("nvidiactl", "nvidia-uvm", *(f"nvidia{number}" for number in range(files))):
        (devices / name).touch()
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nudev {devices} {mounted} rw 0 0\nproc /proc proc rw 0 0\n\n")
    refused = {devices / f"nvidia{number}" for number in range(denied)}
    monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", visible)

    found = pci_gpus(tmp_path, DeviceFiles(devices, mounts, lambda file: file not in refused))

    assert found == counted
