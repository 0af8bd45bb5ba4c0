"""Field values: the batch call's ids, what each answers and since which driver branch.

Ids 251 to 253 and 269 to 271 are the same three counters, before and since driver 580.82.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from exporter.simulator.behaviour import Channel
from exporter.simulator.gpu import Gpu
from exporter.simulator.models import ADA, AMPERE, BLACKWELL

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
    known = _known(field, gpu.driver)
    entry = None if known is None else _FIELDS.get(known)
    if entry is None or gpu.branch < entry.since:
        return None
    return entry.answer(gpu, scope, time)


def link_up(gpu: Gpu, link: int, time: float) -> int:
    """1 while the link is up."""
    return 0 if link == DOWN_LINK and gpu.has("nvlink-down", time) else 1


_NEW_IDS = (269, 270, 271)
_OLD_IDS = (251, 252, 253)


def time_counter_ids(driver: str) -> tuple[int, ...]:
    """The ids of the thermal and power brake counters on this driver, in the order of _NEW_IDS."""
    major, minor, *_ = (*(int(part) for part in driver.split(".")), 0)
    if (major, minor) >= (580, 82):
        return _NEW_IDS
    return _OLD_IDS if (575, 0) <= (major, minor) < (580, 66) else ()


def _known(field: int, driver: str) -> int | None:
    """The id in today's numbering; None where it means nothing, or something else, on this driver."""
    if field not in _NEW_IDS and field not in _OLD_IDS:
        return field
    ids = time_counter_ids(driver)
    return _NEW_IDS[ids.index(field)] if field in ids else None


def _constant(number: float) -> Answer:
    return _of(lambda _: number)


def _of(value: Callable[[Gpu], float | None]) -> Answer:
    def answer(gpu: Gpu, scope: int, time: float) -> float | None:
        del scope, time
        return value(gpu)

    return answer


def _ecc(channel: Channel | None, before: float = 0.0) -> Answer:
    def answer(gpu: Gpu, scope: int, time: float) -> float | None:
        del scope
        if not gpu.model.ecc:
            return None
        return int((gpu.total(channel, time) if channel is not None else 0.0) + before)

    return answer


def _nanoseconds(channel: Channel | None) -> Answer:
    def answer(gpu: Gpu, scope: int, time: float) -> float:
        del scope
        return int(gpu.total(channel, time) / len(gpu.targets) * _NANO) if channel is not None else 0

    return answer


def _pages(number: float) -> Answer:
    return _of(lambda gpu: number if gpu.model.architecture < AMPERE and gpu.model.ecc else None)


def _rows(kind: str, none: float, some: float) -> Answer:
    def answer(gpu: Gpu, scope: int, time: float) -> float | None:
        del scope
        if gpu.model.architecture < AMPERE or not gpu.model.ecc or gpu.mig:
            return None
        return some if gpu.has(kind, time) else none

    return answer


def _links(number: Callable[[Gpu, int, float], float], *, blackwell: bool | None = None) -> Answer:
    """Per link or for all; `blackwell` limits it to that generation of NVLink, or to those before."""

    def answer(gpu: Gpu, scope: int, time: float) -> float | None:
        wrong = blackwell is not None and blackwell != (gpu.model.architecture >= BLACKWELL)
        if not gpu.model.links or wrong or (gpu.model.links <= scope < ALL_LINKS):
            return None
        return number(gpu, scope, time)

    return answer


def _link_bytes(per: float) -> Callable[[Gpu, int, float], float]:
    def number(gpu: Gpu, scope: int, time: float) -> float:
        return int(gpu.total(Channel.NVLINK, time) / (1 if scope == ALL_LINKS else gpu.model.links) / per)

    return number


def _none(gpu: Gpu, scope: int, time: float) -> float:
    del gpu, scope, time
    return 0


def _link_speed(gpu: Gpu, scope: int, time: float) -> float:
    del scope, time
    return gpu.model.link_speed


def _all_errors(gpu: Gpu, scope: int, time: float) -> float:
    del scope
    return int(gpu.total(Channel.LINK_ERRORS, time))


def _link_errors(gpu: Gpu, scope: int, time: float) -> float:
    return int(gpu.total(Channel.LINK_ERRORS, time)) if scope in {DOWN_LINK, ALL_LINKS} else 0


def _limit(offset: float) -> Answer:
    return _of(lambda gpu: offset if gpu.model.architecture >= ADA else None)


def _energy(gpu: Gpu, scope: int, time: float) -> float:
    del scope
    return int(gpu.joules(time) * 1000)


def _memory_temperature(gpu: Gpu, scope: int, time: float) -> float | None:
    del scope
    return int(gpu.temperature(time) + 7) if gpu.model.hbm else None


def _milliwatts(window: float) -> Answer:
    def answer(gpu: Gpu, scope: int, time: float) -> float | None:
        return int(gpu.watts(time, window) * 1000) if scope == 0 else None

    return answer


def _pcie_bytes(gpu: Gpu, scope: int, time: float) -> float:
    del scope
    return int(gpu.total(Channel.PCIE, time))


def _replays(gpu: Gpu, scope: int, time: float) -> float:
    del scope
    return int(gpu.total(Channel.REPLAYS, time))


def _recovery(gpu: Gpu, scope: int, time: float) -> float:
    del scope
    return max(target.behaviour(time).recovery for target in gpu.targets)


_FIELDS: Mapping[int, Field] = {
    1: Field(0, _ecc(None, 1)),
    2: Field(0, _ecc(None, 1)),
    3: Field(0, _ecc(Channel.CORRECTED)),
    4: Field(0, _ecc(Channel.UNCORRECTED)),
    5: Field(0, _ecc(Channel.CORRECTED, 2)),
    6: Field(0, _ecc(Channel.UNCORRECTED)),
    **{id_: Field(0, _ecc(None)) for id_ in (*range(7, 11), *range(13, 22), *range(24, 29))},
    11: Field(0, _ecc(Channel.CORRECTED)),
    12: Field(0, _ecc(Channel.UNCORRECTED)),
    22: Field(0, _ecc(Channel.CORRECTED, 2)),
    23: Field(0, _ecc(Channel.UNCORRECTED)),
    29: Field(0, _pages(1)),
    30: Field(0, _pages(0)),
    31: Field(0, _pages(0)),
    38: Field(0, _links(_all_errors, blackwell=False)),
    45: Field(0, _links(_none, blackwell=False)),
    52: Field(0, _links(_all_errors, blackwell=False)),
    59: Field(0, _links(_none, blackwell=False)),
    74: Field(0, _nanoseconds(Channel.SW_POWER)),
    **{id_: Field(0, _nanoseconds(None)) for id_ in (76, 77, 78, 79, 80, 81)},
    82: Field(0, _memory_temperature),
    83: Field(0, _energy),
    90: Field(0, _links(_link_speed)),
    91: Field(0, _of(lambda gpu: gpu.model.links)),
    94: Field(0, _replays),
    95: Field(0, _constant(0)),
    138: Field(0, _links(_link_bytes(_KIB), blackwell=False)),
    139: Field(0, _links(_link_bytes(_KIB), blackwell=False)),
    140: Field(0, _links(_link_bytes(_KIB / _HEADER_BYTES), blackwell=False)),
    141: Field(0, _links(_link_bytes(_KIB / _HEADER_BYTES), blackwell=False)),
    142: Field(0, _rows("", 0, 0)),
    143: Field(0, _rows("row-remap-pending", 0, 1)),
    144: Field(0, _rows("row-remap-pending", 0, 1)),
    145: Field(0, _rows("row-remap-failed", 0, 1)),
    160: Field(495, _links(_none, blackwell=False)),
    161: Field(525, _links(_link_errors, blackwell=False)),
    162: Field(525, _links(_none, blackwell=False)),
    163: Field(525, _links(_none, blackwell=False)),
    164: Field(530, _links(_link_speed)),
    165: Field(530, _links(link_up)),
    169: Field(530, _constant(0)),
    173: Field(535, _replays),
    174: Field(535, _replays),
    **{id_: Field(535, _constant(0)) for id_ in range(175, 184)},
    185: Field(535, _milliwatts(1.0)),
    186: Field(535, _milliwatts(0.05)),
    187: Field(535, _of(lambda gpu: gpu.model.min_limit * 1000)),
    188: Field(535, _of(lambda gpu: gpu.model.limit * 1000)),
    189: Field(535, _of(lambda gpu: gpu.model.limit * 1000)),
    190: Field(535, _of(lambda gpu: gpu.model.limit * 1000)),
    191: Field(535, _energy),
    192: Field(535, _of(lambda gpu: gpu.model.limit * 1000)),
    193: Field(535, _limit(-8)),
    194: Field(535, _limit(-2)),
    195: Field(535, _of(lambda gpu: 0 if gpu.model.architecture >= ADA and gpu.model.hbm else None)),
    196: Field(535, _limit(0)),
    197: Field(555, _pcie_bytes),
    198: Field(555, _pcie_bytes),
    202: Field(560, _links(_link_bytes(1), blackwell=True)),
    204: Field(560, _links(_link_bytes(1), blackwell=True)),
    **{id_: Field(560, _links(_none, blackwell=True)) for id_ in (206, 207, 208, 209, 210, 211, 212)},
    213: Field(560, _links(_link_errors, blackwell=True)),
    214: Field(560, _links(_none, blackwell=True)),
    215: Field(560, _links(_link_errors, blackwell=True)),
    219: Field(560, _links(_link_errors, blackwell=True)),
    221: Field(560, _links(_link_errors, blackwell=True)),
    230: Field(570, _recovery),
    269: Field(575, _nanoseconds(Channel.SW_THERMAL)),
    270: Field(575, _nanoseconds(Channel.HW_THERMAL)),
    271: Field(575, _nanoseconds(Channel.POWER_BRAKE)),
}  # fmt: skip
