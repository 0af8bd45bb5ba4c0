"""Identity of the GPU, its peak compute rate, and the modes it runs in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from exporter.collectors.base import Collector, Pace, Tick
from exporter.core.families import Sample, Unit, experimental, gauge, info
from exporter.core.record import record
from exporter.driver.interface import Device

_TERA = 1e12
_PEAKS = tuple(
    (re.compile(pattern), teraflops * _TERA)
    for pattern, teraflops in (
        # name as NVML gives it, more particular names first
        (r"\bGB200\b", 2500),
        (r"\bB200\b", 2250),
        (r"\bB100\b", 1750),
        (r"\bGH200\b", 989.4),
        (r"\bH200 NVL\b", 835.5),
        (r"\bH200\b", 989.4),
        (r"\bH100 NVL\b", 835.5),
        (r"\bH100 PCIe\b", 756),
        (r"\bH100\b", 989.4),
        (r"\bH800 PCIe\b", 756),
        (r"\bH800\b", 989.4),
        (r"\bH20\b", 148),
        (r"\bA100\b", 312),
        (r"\bA800\b", 312),
        (r"\bA30\b", 165),
        (r"\bA40\b", 149.7),
        (r"\bA10\b", 125),
        (r"\bL40S\b", 362),
        (r"\bL40\b", 181),
        (r"\bL4\b", 121),
        (r"\bRTX PRO 6000 Blackwell Max-Q\b", 438.9),  # an eighth of the 3,511 that are given for FP4 with sparsity
        (r"\bRTX PRO 6000 Blackwell Workstation\b", 503.8),
        (r"\bRTX 4090\b", 165.2),
        (r"\bV100-PCIE\b", 112),
        (r"\bV100\b", 125),
        (r"\bT4\b", 65),
    )
)
"""Dense BF16 tensor FLOPs a second of each product, by NVIDIA's data sheet: FP16 on GPUs without BF16 (before Ampere).

Where a sheet has the figure with sparsity alone, it is half of that: with sparsity, it is no measure of dense models. A
board that runs at less than its usual power does less, and the data sheet's figure is its bound all the same.
"""
_OTHERS = re.compile(r"\bLaptop\b|\bRTX 4090 D\b|\bV100-FHHL\b|-\d+[ABCQ](ME)?\b", re.IGNORECASE)
"""Boards named after a faster one, and virtual GPUs (`A100-10C`), whose part of the board is not in the name."""


def peak_flops(model: str) -> float | None:
    """Return the peak of a GPU by its product name; None where it is not in the table."""
    if _OTHERS.search(model):
        return None
    return next((flops for pattern, flops in _PEAKS if pattern.search(model)), None)


_ARCHITECTURES = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}
_NODE_SCOPE = 0
_NODE_WORDS = 4
"""Words of the NUMA mask asked for: 256 nodes."""


@record
class Info:
    """Texts are empty where the device does not say; modes are None."""

    model: str
    pci_bus_id: str
    serial: str
    vbios: str
    architecture: str
    compute_capability: str
    numa_node: str
    minor_number: str
    persistence: int | None
    mig: int | None
    ecc: int | None
    ecc_pending: int | None


_NOTHING = Info("", "", "", "", "", "", "", "", None, None, None, None)


def read_info(device: Device, previous: Info | None, _tick: Tick) -> Info:
    """Return the facts of the GPU. They do not change: a text that is refused once stays as it was."""
    before = previous or _NOTHING
    capability = device.get("nvmlDeviceGetCudaComputeCapability")
    mig = device.get("nvmlDeviceGetMigMode")
    ecc = device.get("nvmlDeviceGetEccMode")
    return Info(
        model=_text_of(device.get("nvmlDeviceGetName")) or before.model,
        pci_bus_id=device.pci_bus_id,
        serial=_text_of(device.get("nvmlDeviceGetSerial")) or before.serial,
        vbios=_text_of(device.get("nvmlDeviceGetVbiosVersion")) or before.vbios,
        architecture=_ARCHITECTURES.get(device.get("nvmlDeviceGetArchitecture"), "") or before.architecture,
        compute_capability=".".join(map(str, capability or ())) or before.compute_capability,
        numa_node=numa_node(device.get("nvmlDeviceGetMemoryAffinity", _NODE_WORDS, _NODE_SCOPE)) or before.numa_node,
        minor_number=_text_of(device.minor),
        persistence=device.get("nvmlDeviceGetPersistenceMode"),
        mig=None if mig is None else mig[0],
        ecc=None if ecc is None else ecc[0],
        ecc_pending=None if ecc is None else ecc[1],
    )


def numa_node(mask: Sequence[int] | None) -> str:
    """The lowest NUMA node in a driver's mask of 64-bit words; empty where none is set.

    nvmlDeviceGetNumaNodeId is another thing: the node of a GPU's own memory on coherent machines.
    """
    for word, bits in enumerate(mask or ()):
        if bits:
            return str(word * 64 + (bits & -bits).bit_length() - 1)
    return ""


def _text_of(value: object) -> str:
    return "" if value is None else str(value)


def _info_samples(info: Info) -> Iterable[Sample]:
    labels = (
        info.model,
        info.pci_bus_id,
        info.serial,
        info.vbios,
        info.architecture,
        info.compute_capability,
        info.numa_node,
        info.minor_number,
    )
    return (Sample(1, labels),)


INFO: Collector[Info] = Collector(
    name="info",
    help="Model, bus id, serial, firmware and modes. 9 driver calls every 30 s.",
    pace=Pace.SLOW,
    read=read_info,
    families=(
        info("gpu_info", "What the GPU is; always 1.", _info_samples, ("model", "pci_bus_id", "serial", "vbios", "architecture", "compute_capability", "numa_node", "minor_number")),
        experimental(gauge("gpu_peak_bf16_flops", "Dense BF16 operations a second the GPU can do at most, by its data sheet; absent for models not known.", Unit.NONE, lambda i: peak_flops(i.model))),
        gauge("gpu_persistence_mode_enabled", "Whether the driver keeps the GPU initialised while nothing uses it.", Unit.NONE, lambda i: i.persistence),
        gauge("gpu_mig_mode_enabled", "Whether the GPU is split into MIG instances.", Unit.NONE, lambda i: i.mig),
        gauge("gpu_ecc_mode_enabled", "Whether memory errors are corrected and counted.", Unit.NONE, lambda i: i.ecc),
        gauge("gpu_ecc_mode_pending", "Whether ECC will be on after the next reset.", Unit.NONE, lambda i: i.ecc_pending),
    ),
)  # fmt: skip
