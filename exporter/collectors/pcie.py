"""State and errors of the PCIe link."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.collectors.base import Collector, Fields, Pace, Paced, Tick, read_fields, read_when_due
from exporter.core.families import Shown, Unit, by, counter, counters, gauge, gauges
from exporter.core.record import record
from exporter.driver import constants as nvml
from exporter.driver.interface import Device, UnsupportedError

_REPLAYS = nvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER
_ERRORS = {
    "correctable": nvml.NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS,
    "naks_received": nvml.NVML_FI_DEV_PCIE_COUNT_NAKS_RECEIVED,
    "receiver": nvml.NVML_FI_DEV_PCIE_COUNT_RECEIVER_ERROR,
    "bad_tlp": nvml.NVML_FI_DEV_PCIE_COUNT_BAD_TLP,
    "naks_sent": nvml.NVML_FI_DEV_PCIE_COUNT_NAKS_SENT,
    "bad_dllp": nvml.NVML_FI_DEV_PCIE_COUNT_BAD_DLLP,
    "non_fatal": nvml.NVML_FI_DEV_PCIE_COUNT_NON_FATAL_ERROR,
    "fatal": nvml.NVML_FI_DEV_PCIE_COUNT_FATAL_ERROR,
    "unsupported_request": nvml.NVML_FI_DEV_PCIE_COUNT_UNSUPPORTED_REQ,
    "lcrc": nvml.NVML_FI_DEV_PCIE_COUNT_LCRC_ERROR,
    "lane": nvml.NVML_FI_DEV_PCIE_COUNT_LANE_ERROR,
}


@record
class Slower:
    """Facts that need not be read so often: the best link the slot and GPU allow, and error counts."""

    max_generation: int | None
    max_width: int | None
    replays: float | None
    errors: Mapping[str, float]
    fields: Fields


@record
class Pcie:
    """The generation falls while the GPU idles, to save power; the width does not."""

    generation: int | None
    width: int | None
    slower: Paced[Slower]


def read_pcie(device: Device, previous: Pcie | None, tick: Tick) -> Pcie:
    before = previous.slower if previous else None
    pcie = Pcie(
        generation=device.get("nvmlDeviceGetCurrPcieLinkGeneration"),
        width=device.get("nvmlDeviceGetCurrPcieLinkWidth"),
        slower=read_when_due(before, Pace.SLOW, tick, lambda: _read_slower(device, before, tick)),
    )
    slower = pcie.slower.value
    if (pcie.generation, pcie.width, slower.max_generation, slower.replays) == (None,) * 4 and not slower.errors:
        raise UnsupportedError("no PCIe link")
    return pcie


def _read_slower(device: Device, before: Paced[Slower] | None, tick: Tick) -> Slower:
    wanted = [(field, 0) for field in (_REPLAYS, *_ERRORS.values())]
    fields = read_fields(device, wanted, before.value.fields if before else None, tick)
    has_replays = (_REPLAYS, 0) in fields.supported
    return Slower(
        max_generation=device.get("nvmlDeviceGetMaxPcieLinkGeneration"),
        max_width=device.get("nvmlDeviceGetMaxPcieLinkWidth"),
        replays=fields.get(_REPLAYS) if has_replays else device.get("nvmlDeviceGetPcieReplayCounter"),
        errors={name: count for name, field in _ERRORS.items() if (count := fields.get(field)) is not None},
        fields=fields,
    )


PCIE: Collector[Pcie] = Collector(
    name="pcie",
    help="PCIe generation, width and errors. 2 driver calls every 5 s, 3 more every 30 s.",
    pace=Pace.FAST,
    read=read_pcie,
    families=(
        gauge("gpu_pcie_link_generation", "PCIe generation now; it falls while the GPU idles.", Unit.NONE, lambda p: p.generation),
        gauge("gpu_pcie_link_max_generation", "Highest PCIe generation of GPU and slot together.", Unit.NONE, lambda p: p.slower.value.max_generation),
        gauge("gpu_pcie_link_width", "PCIe lanes in use.", Unit.NONE, lambda p: p.width),
        gauge("gpu_pcie_link_max_width", "Most PCIe lanes of GPU and slot together.", Unit.NONE, lambda p: p.slower.value.max_width),
        counter("gpu_pcie_replays_total", "PCIe packets sent again, carried over resets of the GPU.", Unit.NONE, lambda p: p.slower.value.replays),
        gauge("gpu_pcie_volatile_replays", "PCIe packets sent again as the driver counts them now: back to 0 after a reset or a driver reload.", Unit.NONE, lambda p: p.slower.value.replays, shown=Shown.NONZERO),
        counters("gpu_pcie_errors_total", "PCIe errors by type, carried over resets of the GPU.", Unit.NONE, by(lambda p: p.slower.value.errors.items()), ("type",), shown=Shown.NONZERO),
        gauges("gpu_pcie_volatile_errors", "PCIe errors as the driver counts them now, by type: back to 0 after a reset or a driver reload.", Unit.NONE, by(lambda p: p.slower.value.errors.items()), ("type",), shown=Shown.NONZERO),
    ),
)  # fmt: skip
