"""NVLink: which links are up, how fast, and their errors. The bytes are read with GPM, every cycle."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.collectors.base import Collector, Field, Fields, Pace, Tick, read_fields
from exporter.core.clock import UnixTime
from exporter.core.counters import NO_COUNTS, Counts, count, totals
from exporter.core.families import Shown, Unit, by, counters, gauge, gauges
from exporter.core.record import record
from exporter.driver import constants as nvml
from exporter.driver.interface import Device, UnsupportedError

_COMMON_SPEED, _LINK_COUNT = nvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, nvml.NVML_FI_DEV_NVLINK_LINK_COUNT
_SPEED, _STATE = nvml.NVML_FI_DEV_NVLINK_GET_SPEED, nvml.NVML_FI_DEV_NVLINK_GET_STATE
_UP, _STATES = frozenset({1, 2}), frozenset({0, 1, 2, 3})
"""Link states: 0 inactive, 1 active, 2 asleep to save power, 3 active with traffic disabled. Another says nothing."""
_UNREPORTED_SECONDS = 300.0
"""Seconds after which links that report no state count as not there: one that is refused for a moment is not down."""

_TOTALS = {
    "crc_flit": nvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
    "crc_data": nvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL,
    "replay": nvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
    "recovery": nvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
    "ecc_data": nvml.NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL,
}
"""One count over the first 12 links; on GPUs with more, the counts per link below replace it."""

_PER_LINK = {
    # up to Hopper
    "replay": nvml.NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY,
    "recovery": nvml.NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY,
    "crc": nvml.NVML_FI_DEV_NVLINK_ERROR_DL_CRC,
    # NVLink 5, Blackwell and newer
    "malformed_packet": nvml.NVML_FI_DEV_NVLINK_COUNT_MALFORMED_PACKET_ERRORS,
    "buffer_overrun": nvml.NVML_FI_DEV_NVLINK_COUNT_BUFFER_OVERRUN_ERRORS,
    "receive": nvml.NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS,
    "receive_remote": nvml.NVML_FI_DEV_NVLINK_COUNT_RCV_REMOTE_ERRORS,
    "receive_general": nvml.NVML_FI_DEV_NVLINK_COUNT_RCV_GENERAL_ERRORS,
    "local_link_integrity": nvml.NVML_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS,
    "transmit_discard": nvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_DISCARDS,
    "link_recovery_successful": nvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS,
    "link_recovery_failed": nvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS,
    "link_recovery": nvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS,
    "effective": nvml.NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS,
    "symbol": nvml.NVML_FI_DEV_NVLINK_COUNT_SYMBOL_ERRORS,
}
_PER_LINK_FIELDS = {field: name for name, field in _PER_LINK.items()}


@record
class Nvlink:
    """`up` by link number; errors of the whole GPU by type, and of each link; `speed` of one link in bytes per second.

    Links are counted apart, since each can be refused for a moment, or have its counters reset, while others count on.
    """

    up: Mapping[int, bool]
    whole_errors: Mapping[str, float]
    link_errors: Counts
    """Counts by field and link."""
    speed: float | None
    links: int
    whole: Fields
    by_link: Fields
    per_link: tuple[int, ...]
    """Error fields this GPU counts per link."""
    partial_since: UnixTime | None = None
    """Time since which some links have reported no state; None while all do."""
    recent: bool = False
    """True while these are still waited for."""

    @property
    def links_up(self) -> int | None:
        """Number of links that are up; None while some are waited for."""
        return None if self.recent or not self.up else sum(self.up.values())


def read_nvlink(device: Device, previous: Nvlink | None, tick: Tick) -> Nvlink:
    """The link count is field 91, not NVLINK_MAX_LINKS: links past the end are errors."""
    wanted = [(field, 0) for field in (_LINK_COUNT, _COMMON_SPEED, *_TOTALS.values())]
    whole = read_fields(device, wanted, previous.whole if previous else None, tick)
    links = int(whole.get(_LINK_COUNT) or 0)
    if not links:
        raise UnsupportedError("no NVLink")
    same = previous if previous and previous.links == links else None
    probes = same is None or whole.probed != same.whole.probed
    per_link = (_counted_per_link(device, tick) if probes else ()) or (same.per_link if same else ())
    fields = [(field, link) for field in (_STATE, *per_link) for link in range(links)]
    by_link = read_fields(device, [*fields, (_SPEED, 0)], same.by_link if same else None, tick)
    up = _read_link_states(device, by_link, links)
    since = None if len(up) == links else same.partial_since if same and same.partial_since is not None else tick.time
    errors = {field: number for field, number in by_link.values.items() if field[0] in _PER_LINK_FIELDS}
    megabytes = whole.get(_COMMON_SPEED)
    megabytes = megabytes if megabytes is not None else by_link.get(_SPEED)
    return Nvlink(
        up=up,
        whole_errors={name: number for name, field in _TOTALS.items() if (number := whole.get(field)) is not None},
        link_errors=count(previous.link_errors if previous else NO_COUNTS, errors),
        speed=None if megabytes is None else megabytes * 1e6,
        links=links,
        whole=whole,
        by_link=by_link,
        per_link=per_link,
        partial_since=since,
        recent=since is not None and 0.0 <= tick.time - since < _UNREPORTED_SECONDS,
    )


def _counted_per_link(device: Device, tick: Tick) -> tuple[int, ...]:
    """Ask about one link first: a GPU counts either the old errors or the new ones."""
    found = read_fields(device, [(field, 0) for field in _PER_LINK.values()], None, tick)
    return tuple(field for field, _ in found.supported)


def _read_link_states(device: Device, by_link: Fields, links: int) -> Mapping[int, bool]:
    """The state field came with R525; before it each link is a call."""
    states = {link: by_link.get(_STATE, link) for link in range(links)}
    if any(state is not None for state in states.values()):
        return {link: state in _UP for link, state in states.items() if state in _STATES}
    states = {link: device.get("nvmlDeviceGetNvLinkState", link) for link in range(links)}
    return {link: bool(state) for link, state in states.items() if state is not None}


def _errors_by_type(nvlink: Nvlink, by_link: Mapping[Field, float]) -> Mapping[str, float]:
    """Return the errors by type: the count of each link, else the one count of the GPU."""
    summed: dict[str, float] = {}
    for (field, _), number in by_link.items():
        name = _PER_LINK_FIELDS[field]
        summed[name] = summed.get(name, 0.0) + number
    return {**nvlink.whole_errors, **summed}


NVLINK: Collector[Nvlink] = Collector(
    name="nvlink",
    help="NVLink states, speed and errors. 2 driver calls every 30 s, and 1 per link on drivers before R525.",
    pace=Pace.SLOW,
    read=read_nvlink,
    families=(
        gauges("gpu_nvlink_link_up", "Whether the link is up (asleep to save power counts as up).", Unit.NONE, by(lambda n: ((str(link), float(up)) for link, up in n.up.items())), ("link",), shown=Shown.ZERO),
        gauge("gpu_nvlink_links_up", "How many NVLink links of the GPU are up.", Unit.NONE, lambda n: n.links_up),
        counters("gpu_nvlink_errors_total", "NVLink errors summed over the GPU's links, by type, carried over resets of the GPU.", Unit.NONE, by(lambda n: _errors_by_type(n, totals(n.link_errors)).items()), ("type",)),
        gauges("gpu_nvlink_volatile_errors", "NVLink errors as the driver counts them now, by type: back to 0 after a reset or a driver reload.", Unit.NONE, by(lambda n: _errors_by_type(n, n.link_errors.raws).items()), ("type",), shown=Shown.NONZERO),
        gauge("gpu_nvlink_link_speed_bytes", "Speed of one link in one direction, in bytes per second.", Unit.BYTES, lambda n: n.speed),
    ),
)  # fmt: skip
