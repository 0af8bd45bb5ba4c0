"""A /sys made of files: PCI devices, and InfiniBand or RoCE ports on them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def pci_device(sysfs: Path, path: str, numa: int = 0) -> Path:
    """`path` as sysfs nests it: `pci0000:15/0000:15:01.0/0000:18:00.0`."""
    folder = sysfs / "devices" / path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "numa_node").write_text(f"{numa}\n")
    link = sysfs / "bus/pci/devices" / folder.name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(folder)
    return folder


def rdma_port(  # noqa: PLR0913 - what may differ from port to port
    sysfs: Path,
    name: str,
    pci: str,
    *,
    state: str = "4: ACTIVE",
    rate: str = "400 Gb/sec (4X NDR)",
    layer: str = "InfiniBand",
    numa: int = 0,
    counters: Mapping[str, int] | None = None,
    hardware: Mapping[str, int] | None = None,
) -> Path:
    card = sysfs / "class/infiniband" / name
    port = card / "ports/1"
    files = {
        card / "board_id": "MT_0000000838",
        port / "state": state,
        port / "phys_state": "5: LinkUp",
        port / "rate": rate,
        port / "link_layer": layer,
        port / "gid_attrs/ndevs/0": f"ib{name}",
        **{port / "counters" / key: str(count) for key, count in (counters or {}).items()},
        **{port / "hw_counters" / key: str(count) for key, count in (hardware or {}).items()},
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    if not (card / "device").exists():
        (card / "device").symlink_to(pci_device(sysfs, pci, numa))
    return port
