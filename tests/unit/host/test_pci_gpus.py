"""GPUs on the PCI bus: those that NVIDIA's driver of this host should show."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.host.rdma import pci_gpus
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


@pytest.mark.parametrize(("given", "counted"), [(0, 4), (2, 2), (4, 4), (8, 4)])
def test_container_counts_the_gpus_it_was_given(given: int, counted: int, tmp_path: Path) -> None:
    """Its sysfs is the host's; without any device file nothing is known of what was given."""
    for device in range(4):
        _gpu(tmp_path, f"0000:1{device}:00.0")
    devices = tmp_path / "dev"
    devices.mkdir()
    for name in ("nvidiactl", "nvidia-uvm", *(f"nvidia{number}" for number in range(given))):
        (devices / name).touch()

    assert pci_gpus(tmp_path, devices) == counted
