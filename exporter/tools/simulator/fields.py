"""Field values: the batch call's ids, what each answers and since which driver branch.

Ids 251 to 253 and 269 to 271 are the same three counters, before and since driver 580.82.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from exporter.driver import constants as nvml
from exporter.tools.simulator.behaviour import Channel
from exporter.tools.simulator.gpu import Gpu
from exporter.tools.simulator.models import ADA, AMPERE, BLACKWELL

Answer = Callable[[Gpu, int, float], float | None]
"""(GPU, scope, time) to a number; None where unsupported."""

ALL_LINKS = 0xFFFFFFFF
DOWN_LINK = 2
_NANO = 1e9
_KIB = 1024
_HEADER_BYTES = 1.15
"""Raw NVLink bytes over payload."""


class Field(NamedTuple):
    since: int
    answer: Answer


def field_value(gpu: Gpu, field: int, scope: int, time: float) -> float | None:
    """One entry of a batch; None where this GPU or driver has no such field."""
    known = _known_field(field, gpu.driver)
    entry = None if known is None else _FIELDS.get(known)
    if entry is None or gpu.branch < entry.since:
        return None
    return entry.answer(gpu, scope, time)


def link_up(gpu: Gpu, link: int, time: float) -> int:
    """1 while the link is up."""
    return 0 if link == DOWN_LINK and gpu.has("nvlink-down", time) else 1


_NEW_IDS = (
    nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN,
    nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN,
    nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN,
)
_OLD_IDS = (251, 252, 253)


def time_counter_ids(driver: str) -> tuple[int, ...]:
    """The ids of the thermal and power brake counters on this driver, in the order of _NEW_IDS."""
    major, minor, *_ = (*(int(part) for part in driver.split(".")), 0)
    if (major, minor) >= (580, 82):
        return _NEW_IDS
    return _OLD_IDS if (575, 0) <= (major, minor) < (580, 66) else ()


def _known_field(field: int, driver: str) -> int | None:
    """The id in today's numbering; None where it means nothing, or something else, on this driver."""
    if field not in _NEW_IDS and field not in _OLD_IDS:
        return field
    ids = time_counter_ids(driver)
    return _NEW_IDS[ids.index(field)] if field in ids else None


def _gpu_answer(value: Callable[[Gpu, float], float | None]) -> Answer:
    """Answer by GPU and time, whatever the scope."""
    return lambda gpu, _scope, time: value(gpu, time)


_ZERO = _gpu_answer(lambda _gpu, _time: 0)


def _counter_answer(channel: Channel) -> Answer:
    return _gpu_answer(lambda gpu, time: int(gpu.total(channel, time)))


def _ecc_answer(channel: Channel | None, before: float = 0.0) -> Answer:
    return _gpu_answer(lambda gpu, time: int(_channel_total(gpu, channel, time) + before) if gpu.model.ecc else None)


def _nanosecond_answer(channel: Channel | None) -> Answer:
    return _gpu_answer(lambda gpu, time: int(_channel_total(gpu, channel, time) / len(gpu.targets) * _NANO))


def _channel_total(gpu: Gpu, channel: Channel | None, time: float) -> float:
    return 0.0 if channel is None else gpu.total(channel, time)


def _page_answer(number: float) -> Answer:
    return _gpu_answer(lambda gpu, _: number if gpu.model.architecture < AMPERE and gpu.model.ecc else None)


def _row_answer(kind: str, none: float, some: float) -> Answer:
    def answer(gpu: Gpu, time: float) -> float | None:
        if gpu.model.architecture < AMPERE or not gpu.model.ecc or gpu.mig:
            return None
        return some if gpu.has(kind, time) else none

    return _gpu_answer(answer)


def _link_answer(number: Callable[[Gpu, int, float], float | None], *, blackwell: bool | None = None) -> Answer:
    """Return the fields per link or for all; `blackwell` limits it to that generation of NVLink, or to those before."""

    def answer(gpu: Gpu, scope: int, time: float) -> float | None:
        wrong = blackwell is not None and blackwell != (gpu.model.architecture >= BLACKWELL)
        if not gpu.model.links or wrong or (gpu.model.links <= scope < ALL_LINKS):
            return None
        return number(gpu, scope, time)

    return answer


def _link_bytes(per: float) -> Answer:
    return lambda gpu, scope, time: int(
        gpu.total(Channel.NVLINK, time) / (1 if scope == ALL_LINKS else gpu.model.links) / per
    )


def _link_errors(gpu: Gpu, scope: int, time: float) -> float:
    return int(gpu.total(Channel.LINK_ERRORS, time)) if scope in {DOWN_LINK, ALL_LINKS} else 0


_ALL_ERRORS, _REPLAYS, _PCIE_BYTES = (
    _counter_answer(Channel.LINK_ERRORS),
    _counter_answer(Channel.REPLAYS),
    _counter_answer(Channel.PCIE),
)
_LINK_SPEED = _gpu_answer(lambda gpu, _: gpu.model.link_speed)
_ENERGY = _gpu_answer(lambda gpu, time: int(gpu.joules(time) * 1000))


def _limit_answer(offset: float) -> Answer:
    return _gpu_answer(lambda gpu, _: offset if gpu.model.architecture >= ADA else None)


def _milliwatt_answer(window: float) -> Answer:
    return lambda gpu, scope, time: int(gpu.watts(time, window) * 1000) if scope == 0 else None


_FIELDS: Mapping[int, Field] = {
    nvml.NVML_FI_DEV_ECC_CURRENT: Field(0, _ecc_answer(None, 1)),
    nvml.NVML_FI_DEV_ECC_PENDING: Field(0, _ecc_answer(None, 1)),
    nvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL: Field(0, _ecc_answer(Channel.CORRECTED)),
    nvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL: Field(0, _ecc_answer(Channel.UNCORRECTED)),
    nvml.NVML_FI_DEV_ECC_SBE_AGG_TOTAL: Field(0, _ecc_answer(Channel.CORRECTED, 2)),
    nvml.NVML_FI_DEV_ECC_DBE_AGG_TOTAL: Field(0, _ecc_answer(Channel.UNCORRECTED)),
    **{
        id_: Field(0, _ecc_answer(None))
        for id_ in range(nvml.NVML_FI_DEV_ECC_SBE_VOL_L1, nvml.NVML_FI_DEV_ECC_DBE_AGG_CBU + 1)
    },
    nvml.NVML_FI_DEV_ECC_SBE_VOL_DEV: Field(0, _ecc_answer(Channel.CORRECTED)),
    nvml.NVML_FI_DEV_ECC_DBE_VOL_DEV: Field(0, _ecc_answer(Channel.UNCORRECTED)),
    nvml.NVML_FI_DEV_ECC_SBE_AGG_DEV: Field(0, _ecc_answer(Channel.CORRECTED, 2)),
    nvml.NVML_FI_DEV_ECC_DBE_AGG_DEV: Field(0, _ecc_answer(Channel.UNCORRECTED)),
    nvml.NVML_FI_DEV_RETIRED_SBE: Field(0, _page_answer(1)),
    nvml.NVML_FI_DEV_RETIRED_DBE: Field(0, _page_answer(0)),
    nvml.NVML_FI_DEV_RETIRED_PENDING: Field(0, _page_answer(0)),
    nvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL: Field(0, _link_answer(_ALL_ERRORS, blackwell=False)),
    nvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL: Field(0, _link_answer(_ZERO, blackwell=False)),
    nvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL: Field(0, _link_answer(_ALL_ERRORS, blackwell=False)),
    nvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL: Field(0, _link_answer(_ZERO, blackwell=False)),
    nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP: Field(0, _nanosecond_answer(Channel.SW_POWER)),
    **{
        id_: Field(0, _nanosecond_answer(None))
        for id_ in range(
            nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST, nvml.NVML_FI_DEV_PERF_POLICY_TOTAL_BASE_CLOCKS + 1
        )
    },
    nvml.NVML_FI_DEV_MEMORY_TEMP: Field(
        0, _gpu_answer(lambda gpu, time: int(gpu.temperature(time) + 7) if gpu.model.hbm else None)
    ),
    nvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION: Field(0, _ENERGY),
    nvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON: Field(0, _link_answer(_LINK_SPEED)),
    nvml.NVML_FI_DEV_NVLINK_LINK_COUNT: Field(0, _gpu_answer(lambda gpu, _: gpu.model.links)),
    nvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER: Field(0, _REPLAYS),
    nvml.NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER: Field(0, _ZERO),
    nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX: Field(0, _link_answer(_link_bytes(_KIB), blackwell=False)),
    nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX: Field(0, _link_answer(_link_bytes(_KIB), blackwell=False)),
    nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_RAW_TX: Field(
        0, _link_answer(_link_bytes(_KIB / _HEADER_BYTES), blackwell=False)
    ),
    nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_RAW_RX: Field(
        0, _link_answer(_link_bytes(_KIB / _HEADER_BYTES), blackwell=False)
    ),
    nvml.NVML_FI_DEV_REMAPPED_COR: Field(0, _row_answer("", 0, 0)),
    nvml.NVML_FI_DEV_REMAPPED_UNC: Field(0, _row_answer("row-remap-pending", 0, 1)),
    nvml.NVML_FI_DEV_REMAPPED_PENDING: Field(0, _row_answer("row-remap-pending", 0, 1)),
    nvml.NVML_FI_DEV_REMAPPED_FAILURE: Field(0, _row_answer("row-remap-failed", 0, 1)),
    nvml.NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL: Field(495, _link_answer(_ZERO, blackwell=False)),
    nvml.NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY: Field(525, _link_answer(_link_errors, blackwell=False)),
    nvml.NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY: Field(525, _link_answer(_ZERO, blackwell=False)),
    nvml.NVML_FI_DEV_NVLINK_ERROR_DL_CRC: Field(525, _link_answer(_ZERO, blackwell=False)),
    nvml.NVML_FI_DEV_NVLINK_GET_SPEED: Field(530, _link_answer(_LINK_SPEED)),
    nvml.NVML_FI_DEV_NVLINK_GET_STATE: Field(530, _link_answer(link_up)),
    nvml.NVML_FI_DEV_PCIE_L0_TO_RECOVERY_COUNTER: Field(530, _ZERO),
    nvml.NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS: Field(535, _REPLAYS),
    nvml.NVML_FI_DEV_PCIE_COUNT_NAKS_RECEIVED: Field(535, _REPLAYS),
    **{
        id_: Field(535, _ZERO)
        for id_ in range(nvml.NVML_FI_DEV_PCIE_COUNT_RECEIVER_ERROR, nvml.NVML_FI_DEV_PCIE_COUNT_LANE_ERROR + 1)
    },
    nvml.NVML_FI_DEV_POWER_AVERAGE: Field(535, _milliwatt_answer(1.0)),
    nvml.NVML_FI_DEV_POWER_INSTANT: Field(535, _milliwatt_answer(0.05)),
    nvml.NVML_FI_DEV_POWER_MIN_LIMIT: Field(535, _gpu_answer(lambda gpu, _: gpu.model.min_limit * 1000)),
    nvml.NVML_FI_DEV_POWER_MAX_LIMIT: Field(535, _gpu_answer(lambda gpu, _: gpu.model.limit * 1000)),
    nvml.NVML_FI_DEV_POWER_DEFAULT_LIMIT: Field(535, _gpu_answer(lambda gpu, _: gpu.model.limit * 1000)),
    nvml.NVML_FI_DEV_POWER_CURRENT_LIMIT: Field(535, _gpu_answer(lambda gpu, _: gpu.model.limit * 1000)),
    nvml.NVML_FI_DEV_ENERGY: Field(535, _ENERGY),
    nvml.NVML_FI_DEV_POWER_REQUESTED_LIMIT: Field(535, _gpu_answer(lambda gpu, _: gpu.model.limit * 1000)),
    nvml.NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT: Field(535, _limit_answer(-8)),
    nvml.NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT: Field(535, _limit_answer(-2)),
    nvml.NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT: Field(
        535, _gpu_answer(lambda gpu, _: 0 if gpu.model.architecture >= ADA and gpu.model.hbm else None)
    ),
    nvml.NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT: Field(535, _limit_answer(0)),
    nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES: Field(555, _PCIE_BYTES),
    nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES: Field(555, _PCIE_BYTES),
    nvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES: Field(560, _link_answer(_link_bytes(1), blackwell=True)),
    nvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES: Field(560, _link_answer(_link_bytes(1), blackwell=True)),
    **{
        id_: Field(560, _link_answer(_ZERO, blackwell=True))
        for id_ in range(
            nvml.NVML_FI_DEV_NVLINK_COUNT_MALFORMED_PACKET_ERRORS, nvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_DISCARDS + 1
        )
    },
    nvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS: Field(
        560, _link_answer(_link_errors, blackwell=True)
    ),
    nvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS: Field(560, _link_answer(_ZERO, blackwell=True)),
    nvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS: Field(560, _link_answer(_link_errors, blackwell=True)),
    nvml.NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS: Field(560, _link_answer(_link_errors, blackwell=True)),
    nvml.NVML_FI_DEV_NVLINK_COUNT_SYMBOL_ERRORS: Field(560, _link_answer(_link_errors, blackwell=True)),
    nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: Field(
        570, _gpu_answer(lambda gpu, time: max(each.behaviour(time).recovery for each in gpu.targets))
    ),
    nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN: Field(575, _nanosecond_answer(Channel.SW_THERMAL)),
    nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN: Field(575, _nanosecond_answer(Channel.HW_THERMAL)),
    nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN: Field(575, _nanosecond_answer(Channel.POWER_BRAKE)),
}
