"""Events that happen to GPU 0 of a scripted node of two, and their repairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from exporter.driver.interface import DeviceLostError, DriverError, DriverGoneError, DriverMismatchError, Record
from tests.contract.cycles.rig import UPTIME, gpu
from tests.contract.verdicts.node import Node

BUS = "0000:01:00"
Step = Callable[[Node], None]


@dataclass(frozen=True, slots=True)
class Event:
    """`finding` is its one name, `alert` the one that fires; words of several, where several things are wrong.

    `latched` is whether it is a fault, which stays until it is repaired or acknowledged.
    """

    finding: str
    alert: str
    plant: Step
    repair: Step
    latched: bool = True
    left: str = ""
    """The finding that is left when somebody has acknowledged it."""
    known: bool = False
    """Whether the exporter has run before, where the event is before its start: its history is needed."""
    subject: tuple[str, str] = ("0", "")
    """The GPU and the kind that somebody acknowledges."""


def answers(**values: object) -> Step:
    """Let GPU 0 answer otherwise."""

    def change(rig: Node) -> None:
        rig.gpus[0].answers |= {f"nvmlDeviceGet{name}": value for name, value in values.items()}

    return change


def fields(values: Mapping[tuple[int, int], float]) -> Step:
    return lambda rig: rig.gpus[0].fields.update(values)


def kernel(*messages: str) -> Step:
    """Write into the kernel log."""

    def write(rig: Node) -> None:
        for message in messages:
            rig.log(f"4,1,{int((UPTIME + rig.seconds) * 1e6)},-;{message}")

    return write


def xids(*numbers: int) -> Step:
    return kernel(*(f"NVRM: Xid (PCI:{BUS}): {number}, pid=77, name=python3, Timeout" for number in numbers))


def reset(rig: Node) -> None:
    """Restart the driver's counters of both GPUs."""
    for device in rig.gpus:
        device.answers["nvmlDeviceGetTotalEnergyConsumption"] = 90_000


def each(*steps: Step) -> Step:
    def run(rig: Node) -> None:
        for step in steps:
            step(rig)

    return run


def advised(code: int, words: str) -> Step:
    text = f"GPU recovery action changed from 0x0 (None) to {code:#x} ({words})"
    return kernel(f"NVRM: Xid (PCI:{BUS}): 154, {text}")


def refuse(rig: Node) -> None:
    error = DeviceLostError("GPU requires reset", "RESET_REQUIRED")
    rig.gpus[0].answers = dict.fromkeys((*rig.gpus[0].answers, "nvmlDeviceGetFieldValues"), error)


def fall_off(rig: Node) -> None:
    lost = DeviceLostError("GPU is lost", "GPU_IS_LOST")
    rig.gpus[0].answers = dict.fromkeys((*rig.gpus[0].answers, "nvmlDeviceGetFieldValues"), lost)


def come_back(rig: Node) -> None:
    rig.gpus[0].answers = gpu(0).answers


def fail_telemetry(rig: Node) -> None:
    """Let the calls of GPU 0 fail that its handle, its memory and its processes do not need."""
    unknown = DriverError("Unknown Error", "UNKNOWN")
    words = ("Utilization", "Power", "Energy", "Clock", "Temperature", "Samples")
    rig.gpus[0].answers |= {name: unknown for name in rig.gpus[0].answers if any(word in name for word in words)}


def late(rig: Node) -> None:
    rig.late.add(0)


def in_time(rig: Node) -> None:
    rig.late.clear()


def driver(failure: DriverError | None) -> Step:
    """Let the driver fail as a whole, or work again."""

    def change(rig: Node) -> None:
        rig.driver.failure = failure
        rig.enumerate()

    return change


def on_pci(count: int) -> Step:
    return lambda rig: setattr(rig.node, "pci", count)


def take_out(rig: Node) -> None:
    """Take GPU 0 off the bus, as a start without it does."""
    del rig.gpus[0]
    rig.enumerate()


def put_back(rig: Node) -> None:
    rig.gpus.insert(0, gpu(0))
    rig.gpus[0].answers["nvmlDeviceGetTotalEnergyConsumption"] = 90_000
    rig.enumerate()


def swap(rig: Node) -> None:
    """Put each card into the other's slot; their counters began anew."""
    one, other = rig.gpus
    one.pci_bus_id, other.pci_bus_id = other.pci_bus_id, one.pci_bus_id
    one.index, other.index, one.minor, other.minor = other.index, one.index, other.minor, one.minor
    rig.gpus.reverse()
    reset(rig)
    rig.enumerate()


def a_minute(rig: Node) -> None:
    rig.run(60.0)


def both(step: Step) -> Step:
    """The same with each GPU, one after the other."""

    def run(rig: Node) -> None:
        for _ in range(2):
            step(rig)
            rig.gpus.reverse()

    return run


def option(count: int | None) -> Step:
    return lambda rig: rig.expected.update(option=count)


GONE = DriverGoneError("driver not loaded", "DRIVER_NOT_LOADED")
MISMATCH = DriverMismatchError("Driver/library version mismatch", "LIB_RM_VERSION_MISMATCH")
SXID = kernel("nvidia-nvswitch2: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up")
PROGRAMS = kernel(*(f"NVRM: Xid (PCI:{BUS}): 31, pid={9000 + n}, name=prog{n}, MMU Fault" for n in range(10)))
REMAP_FAILED, REMAPPED = answers(RemappedRows=(0, 1, 0, 1)), answers(RemappedRows=(0, 0, 0, 0))
UNCORRECTED = (4, 0)
"""NVML_FI_DEV_ECC_DBE_VOL_TOTAL."""
ECC_ERROR, NO_ECC_ERROR = fields({UNCORRECTED: 1}), fields({UNCORRECTED: 0})
ADVICE, REPLAYS = (230, 0), (161, 3)
"""NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, and NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY of a link."""
LINKS_DOWN = {(165, link): 0 for link in (3, 4)}
RESET_DONE = kernel(
    f"NVRM: Xid (PCI:{BUS}): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
)
LOADED = kernel("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05")

EVENTS: Mapping[str, Event] = {
    "XID 119, then a reset": Event("xid", "GpuRecoveryActionNeeded", xids(119), reset),
    "XID 119, then a reset in the kernel log": Event("xid", "GpuRecoveryActionNeeded", xids(119), RESET_DONE),
    "XID 119, then the module loaded anew": Event("xid", "GpuRecoveryActionNeeded", xids(119), LOADED),
    "off the bus, with XID 79": Event("lost", "GpuLost", each(xids(79), fall_off), each(come_back, reset)),
    "off the bus, without an XID": Event("lost", "GpuLost", fall_off, come_back),
    "XID 31 of ten programs": Event("xid_pattern", "GpuXidWorkflow", PROGRAMS, reset),
    "uncorrectable error, with XID 48": Event(
        "ecc_uncorrectable", "GpuRecoveryActionNeeded", each(ECC_ERROR, xids(48)), each(NO_ECC_ERROR, reset)
    ),
    "contained error that waits for a remap": Event(
        "ecc_uncorrectable",
        "GpuResetPending",
        each(ECC_ERROR, xids(63, 94), answers(RemappedRows=(0, 1, 1, 0))),
        each(NO_ECC_ERROR, REMAPPED, reset),
        left="row_remap_pending",
    ),
    "failed row remap": Event("row_remap_failed", "GpuRecoveryActionNeeded", REMAP_FAILED, REMAPPED),
    "failed row remap, with XID 63, 64 and 94": Event(
        "row_remap_failed",
        "GpuRecoveryActionNeeded",
        each(REMAP_FAILED, ECC_ERROR, xids(63, 64, 94)),
        each(REMAPPED, NO_ECC_ERROR, reset),
    ),
    "SRAM over its threshold": Event(
        "ecc_sram_threshold",
        "GpuRecoveryActionNeeded",
        answers(SramEccErrorStatus=Record(bThresholdExceeded=1)),
        answers(SramEccErrorStatus=Record(bThresholdExceeded=0)),
    ),
    "two NVLinks down": Event(
        "nvlink_down", "GpuNvlinkFabricDegraded", fields(LINKS_DOWN), fields(dict.fromkeys(LINKS_DOWN, 1))
    ),
    "two NVLinks down, and the driver advises a reset": Event(
        "nvlink_down",
        "GpuRecoveryActionNeeded",
        fields(LINKS_DOWN | {ADVICE: 1}),
        fields(dict.fromkeys(LINKS_DOWN, 1) | {ADVICE: 0}),
        left="recovery_gpu_reset",
    ),
    "XID 119, and the driver advises a reboot": Event(
        "xid",
        "GpuRecoveryActionNeeded",
        each(xids(119), fields({ADVICE: 2})),
        each(reset, fields({ADVICE: 0})),
        left="recovery_node_reboot",
    ),
    "off the bus, with XID 79 and 154": Event(
        "lost", "GpuLost", each(xids(79), advised(2, "Node Reboot Required"), fall_off), each(come_back, reset)
    ),
    "uncorrectable error, with XID 95 and 154, and the driver advises a reset": Event(
        "ecc_uncorrectable",
        "GpuRecoveryActionNeeded",
        each(ECC_ERROR, xids(95), advised(1, "GPU Reset Required"), fields({ADVICE: 1})),
        each(NO_ECC_ERROR, reset, fields({ADVICE: 0})),
        left="recovery_gpu_reset",
    ),
    "XID 154 asks for a reboot": Event(
        "xid",
        "GpuRecoveryActionNeeded",
        each(advised(2, "Node Reboot Required"), fields({ADVICE: 2})),
        each(reset, fields({ADVICE: 0})),
        left="recovery_node_reboot",
    ),
    "the driver requires a reset": Event("lost", "GpuLost", refuse, come_back),
    "two NVLinks down, and the fabric has an unhealthy route": Event(
        "fabric_route",
        "GpuNvlinkFabricDegraded",
        each(fields(LINKS_DOWN), answers(GpuFabricInfoV=Record(state=3, status=0, healthMask=0b0001_10011010))),
        each(
            fields(dict.fromkeys(LINKS_DOWN, 1)),
            answers(GpuFabricInfoV=Record(state=3, status=0, healthMask=0b0001_10101010)),
        ),
        left="fabric_route",
    ),
    "the driver advises a reset": Event(
        "recovery_gpu_reset", "GpuRecoveryActionNeeded", fields({ADVICE: 1}), fields({ADVICE: 0}), latched=False
    ),
    "the driver advises to restart IMEX": Event(
        "recovery_recover_imex", "GpuResetPending", fields({ADVICE: 5}), fields({ADVICE: 0}), latched=False
    ),
    "NVLink repeats transfers": Event(
        "nvlink_errors", "GpuNvlinkFabricDegraded", fields({REPLAYS: 5000}), fields({REPLAYS: 0}), latched=False
    ),
    "ECC off, unlike the site's reference": Event(
        "reference", "GpuSourceFailing", answers(EccMode=(0, 0)), answers(EccMode=(1, 1)), latched=False
    ),
    "8 of 16 lanes": Event(
        "pcie_width", "GpuPcieDegraded", answers(CurrPcieLinkWidth=8), answers(CurrPcieLinkWidth=16)
    ),
    "PCIe generation 2 of 5 under load": Event(
        "pcie_generation", "GpuPcieDegraded", answers(CurrPcieLinkGeneration=2), answers(CurrPcieLinkGeneration=5)
    ),
    "fabric never joins": Event(
        "fabric_state",
        "GpuNvlinkFabricDegraded",
        answers(GpuFabricInfoV=Record(state=2, status=0, healthMask=0)),
        answers(GpuFabricInfoV=Record(state=3, status=0, healthMask=0b0001_10101010)),
        latched=False,
    ),
    "telemetry fails": Event("lost", "GpuLost", fail_telemetry, come_back),
    "full use in an idle state": Event(
        "utilization_stuck",
        "GpuSourceFailing",
        answers(UtilizationRates=Record(gpu=100, memory=0), PerformanceState=8, ComputeRunningProcesses=()),
        come_back,
        latched=False,
    ),
    "late call": Event("gpu_slow", "GpuSampleStale", late, in_time, latched=False),
    "fatal SXID": Event("nvswitch", "GpuNvswitchError", SXID, reset, subject=("", "nvswitch")),
    "all GPUs gone": Event(
        "gpu_missing",
        "GpuDriverUnavailable",
        each(on_pci(0), driver(GONE)),
        each(on_pci(2), driver(None)),
        latched=False,
        known=True,
    ),
    "a GPU missing, by the history": Event(
        "lost", "GpuLost", each(on_pci(1), take_out), each(on_pci(2), put_back), known=True
    ),
    "a GPU missing, by the option": Event("gpu_missing", "GpuLost", option(3), option(2), latched=False),
    "driver and library differ": Event("driver", "GpuDriverUnavailable", driver(MISMATCH), driver(None), latched=False),
    "uncorrectable error alone": Event(
        "ecc_uncorrectable", "GpuRecoveryActionNeeded", ECC_ERROR, each(NO_ECC_ERROR, reset)
    ),
    "heat": Event(
        "hw_thermal",
        "GpuThermalThrottling",
        answers(CurrentClocksEventReasons=0x40),
        answers(CurrentClocksEventReasons=0x4),
        latched=False,
    ),
    "HW slowdown alone": Event(
        "hw_slowdown",
        "GpuPerformanceLimited",
        answers(CurrentClocksEventReasons=0x8),
        answers(CurrentClocksEventReasons=0x4),
        latched=False,
    ),
    "XID 119, and two NVLinks down": Event(
        "nvlink_down xid",
        "GpuRecoveryActionNeeded",
        each(xids(119), fields(LINKS_DOWN)),
        each(fields(dict.fromkeys(LINKS_DOWN, 1)), reset),
    ),
    "uncorrectable error, and 8 of 16 lanes": Event(
        "ecc_uncorrectable pcie_width",
        "GpuPcieDegraded GpuRecoveryActionNeeded",
        each(ECC_ERROR, answers(CurrPcieLinkWidth=8)),
        each(NO_ECC_ERROR, reset, answers(CurrPcieLinkWidth=16)),
    ),
    "off the bus, and the failed row remap of before": Event(
        "lost row_remap_failed",
        "GpuLost",
        each(REMAP_FAILED, a_minute, xids(79), fall_off),
        each(come_back, reset),
    ),
    "both GPUs off the bus": Event("lost", "GpuLost", both(fall_off), both(come_back), left="lost"),
    "XID 119, and no GPU after the module is loaded": Event(
        "gpu_missing",
        "GpuDriverUnavailable",
        each(xids(119), LOADED, on_pci(0), driver(GONE)),
        each(on_pci(2), driver(None)),
        latched=False,
        known=True,
    ),
    "cards in each other's slots": Event("", "", swap, swap),
    "XID 119, then cards in each other's slots": Event("", "", each(xids(119), a_minute, swap), swap),
}
