"""InfiniBand and RoCE ports as sysfs shows them, and devices on the PCI bus.

Reading may take milliseconds: network cards ask their firmware for some counters. Not for the sampling thread.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from exporter.host.text import bounded, exists, is_folder, natural, read_text

_CLASS = "class/infiniband"
_MAX_PORTS = 64
_WORDS_BYTES = 4
"""The architecture counts bytes of a port in words of four."""
_STATE = re.compile(r"\d+:\s*(?P<state>\w+)")
_NUMBER = re.compile(r"([0-9]+)")
_RATE = re.compile(r"(?P<gigabits>\d+(?:\.\d+)?)\s*Gb/sec")

_ERRORS = (
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_rcv_constraint_errors",
    "port_xmit_discards",
    "port_xmit_constraint_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "VL15_dropped",
)
"""Files of `counters/`, by the architecture's names."""
_HARDWARE_ERRORS = (
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "out_of_buffer",
    "implied_nak_seq_err",
    "req_cqe_error",
    "resp_cqe_error",
    "rx_icrc_encapsulated",
)
"""Files of `hw_counters/`, where the card has them: mostly RoCE's."""

PciPath = tuple[str, ...]
"""Path from the root complex to the device, as sysfs nests them; empty where it is not shown."""


@dataclass(frozen=True, slots=True)
class Port:
    """One port. What sysfs does not report is None or empty."""

    device: str
    port: str
    state: str = ""
    """`active`, `down`, `initialize`, `armed`: the logical state, in lower case."""
    link_layer: str = ""
    """`InfiniBand`, or `Ethernet` for RoCE."""
    rate: float | None = None
    """Bytes per second, one direction, of the link as it is trained."""
    bytes: Mapping[str, float] = field(default_factory=dict[str, float])
    """Bytes by direction: `receive`, `transmit`."""
    errors: Mapping[str, float] = field(default_factory=dict[str, float])
    board: str = ""
    """Kind of card: ports of the same kind are compared."""
    netdev: str = ""
    path: PciPath = ()
    numa_node: str = ""
    physical_state: str = ""
    """`linkup`, `polling`, `disabled`: that of the cable, in lower case."""


def ports(sysfs: Path) -> tuple[Port, ...]:
    """Return the ports of this machine's cards, not of virtual functions; none if the kernel has no such class."""
    return tuple(islice(_card_ports(sysfs), _MAX_PORTS))


def present(sysfs: Path) -> bool:
    return is_folder(sysfs / _CLASS)


def pci_path(sysfs: Path, bus_id: str) -> PciPath:
    """Return the path of the device with this address (`0000:1a:00.0`)."""
    return _pci_path(sysfs / "bus/pci/devices" / bus_id)


def pci_numa_node(sysfs: Path, bus_id: str) -> str:
    return _numa_node(sysfs / "bus/pci/devices" / bus_id)


def memory_is_numa_node(procfs: Path, bus_id: str) -> bool:
    """Return whether the system uses a GPU's memory as its own (GH200, GB200): processes do not account for it."""
    text = read_text(f"{procfs}/driver/nvidia/gpus/{bus_id}/numa_status")
    return re.search(r"^Node:\s*\d", text, re.MULTILINE) is not None


def _card_ports(sysfs: Path) -> Iterator[Port]:
    for device in sorted(_folder_names(sysfs / _CLASS), key=_natural_order):
        folder = sysfs / _CLASS / device
        if exists(folder / "device/physfn"):  # a virtual function: its port is the card's, or is down until it is used
            continue
        path, numa = _pci_path(folder / "device"), _numa_node(folder / "device")
        board = _read_word(folder / "board_id") or _read_word(folder / "hca_type")
        for port in _folder_names(folder / "ports"):
            yield _read_port(folder / "ports" / port, device, port, (board, path, numa))


def _read_port(folder: Path, device: str, port: str, card: tuple[str, PciPath, str]) -> Port:
    board, path, numa = card
    rate = _RATE.match(_read_word(folder / "rate"))
    state, physical = (_STATE.match(_read_word(folder / name)) for name in ("state", "phys_state"))
    moved = {"receive": "port_rcv_data", "transmit": "port_xmit_data"}
    words = {direction: _read_count(folder / "counters" / name) for direction, name in moved.items()}
    errors = {name: _read_count(folder / "counters" / name) for name in _ERRORS}
    errors |= {name: _read_count(folder / "hw_counters" / name) for name in _HARDWARE_ERRORS}
    return Port(
        device=bounded(device),
        port=bounded(port),
        state=state["state"].lower() if state else "",
        physical_state=physical["state"].lower() if physical else "",
        link_layer=_read_word(folder / "link_layer"),
        rate=float(rate["gigabits"]) * 1e9 / 8 if rate else None,
        bytes={direction: count * _WORDS_BYTES for direction, count in words.items() if count is not None},
        errors={name: count for name, count in errors.items() if count is not None},
        board=board,
        netdev=_read_word(folder / "gid_attrs/ndevs/0"),
        path=path,
        numa_node=numa,
    )


def _natural_order(name: str) -> list[tuple[int, str]]:
    """`mlx5_2` before `mlx5_10`."""
    return [(int(part[:9]), "") if part.isdecimal() else (-1, part) for part in _NUMBER.split(name)]


def _folder_names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


def _read_word(path: Path) -> str:
    return bounded(read_text(str(path)).strip())


def _read_count(path: Path) -> float | None:
    number = natural(_read_word(path))
    return None if number is None else float(number)


def _pci_path(link: Path) -> PciPath:
    """`/sys/devices/pci0000:00/0000:00:01.0/0000:1a:00.0` without what stands before the root complex."""
    try:
        parts = Path(os.path.realpath(link, strict=True)).parts
    except OSError:
        return ()
    roots = [place for place, part in enumerate(parts) if part.startswith("pci")]
    return parts[roots[0] :] if roots else ()


def _numa_node(folder: Path) -> str:
    """The kernel writes -1 for a machine without NUMA."""
    number = natural(_read_word(folder / "numa_node"))
    return "" if number is None else str(number)


_NVIDIA = "0x10de"
_DISPLAY_CLASSES = ("0x0300", "0x0302")
"""VGA and 3D controllers; NVIDIA's audio and USB functions are other classes."""
_HOLDERS = {"pci-stub", "pciback", "xen-pciback"}
"""Drivers that hold a device for virtual machines, beside those of VFIO."""


_DEVICE_FILE = re.compile(r"nvidia\d{1,4}")


def pci_gpus(sysfs: Path, device_files: DeviceFiles | None = None) -> int | None:
    """Count NVIDIA display controllers under /sys/bus/pci/devices that are the host's; None without that directory."""
    devices = sysfs / "bus/pci/devices"
    try:
        entries = sorted(devices.iterdir())
    except OSError:
        return None
    return (device_files or DeviceFiles()).limit(sum(_is_gpu(entry) for entry in entries))


@dataclass(frozen=True, slots=True)
class DeviceFiles:
    """GPUs that a container was given: its sysfs shows all of the host's."""

    folder: Path = Path("/dev")
    mounts: Path = Path("/proc/self/mounts")
    may_open: Callable[[Path], bool] = lambda file: os.access(file, os.R_OK | os.W_OK)
    """The kernel lets the device cgroup (v1 and v2) decide this as it decides open(2)."""

    def limit(self, shown: int) -> int:
        """Return how many of the GPUs on the bus were given; all of them if no device file may be opened."""
        files = [file for file in self.folder.iterdir() if _DEVICE_FILE.fullmatch(file.name)]
        given = sum(self.may_open(file) for file in files)
        if not given:
            return shown
        return shown - (len(files) - given) if self._is_complete() else min(shown, given)

    def _is_complete(self) -> bool:
        """Return whether a missing device file means a GPU that failed, and not one that was withheld."""
        if os.environ.get("NVIDIA_VISIBLE_DEVICES", "").endswith("all"):
            return True
        kinds = re.findall(rf"(?m)^\S+ {re.escape(str(self.folder))} (\S+) ", read_text(str(self.mounts)))
        return kinds[-1:] == ["devtmpfs"]  # the kernel's own: no container runtime has filled it


def _is_gpu(entry: Path) -> bool:
    try:
        if (entry / "vendor").read_text().strip() != _NVIDIA:
            return False
        display = (entry / "class").read_text().strip().startswith(_DISPLAY_CLASSES)
    except OSError:
        return False
    driver = (entry / "driver").resolve().name
    for_guests = "vfio" in driver or driver in _HOLDERS or exists(entry / "physfn")
    return display and not for_guests  # NVIDIA's driver never shows what is kept for virtual machines
