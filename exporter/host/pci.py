"""The GPUs that the PCI bus shows."""

from __future__ import annotations

from pathlib import Path

from exporter.host.presence import exists

_NVIDIA = "0x10de"
_DISPLAY_CLASSES = ("0x0300", "0x0302")
"""VGA and 3D controllers; NVIDIA's audio and USB functions are other classes."""
_HOLDERS = {"pci-stub", "pciback", "xen-pciback"}
"""Drivers that hold a device for virtual machines, beside those of VFIO."""


def pci_gpus(sysfs: Path) -> int | None:
    """Count NVIDIA display controllers under /sys/bus/pci/devices that are the host's; None without that directory."""
    devices = sysfs / "bus/pci/devices"
    try:
        entries = sorted(devices.iterdir())
    except OSError:
        return None
    return sum(_is_gpu(entry) for entry in entries)


def _is_gpu(entry: Path) -> bool:
    try:
        if (entry / "vendor").read_text().strip() != _NVIDIA:
            return False
        display = (entry / "class").read_text().strip().startswith(_DISPLAY_CLASSES)
    except OSError:
        return False
    return display and not _is_given_away(entry)


def _is_given_away(entry: Path) -> bool:
    """Whether it is kept for a virtual machine, or is a part of a GPU for one: NVIDIA's driver will never show it."""
    driver = (entry / "driver").resolve().name
    return "vfio" in driver or driver in _HOLDERS or exists(entry / "physfn")
