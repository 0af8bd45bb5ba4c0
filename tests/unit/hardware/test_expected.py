from __future__ import annotations

import pytest

from tests.hardware import expected
from tests.hardware.figures import History


def line(rate: float, begin: float = 0.0, end: float = 20.0) -> History:
    """A counter that grows evenly."""
    return [(begin, 0.0), (end, rate * (end - begin))]


def flat(value: float) -> History:
    return [(0.0, value), (20.0, value)]


def test_tensor_share_of_an_h100_at_its_stated_peak_is_one() -> None:
    assert expected.tensor_share(989.4e12, 132, 1830.0, "9.0") == pytest.approx(1.0, abs=0.001)
    assert expected.tensor_share(312e12, 108, 1410.0, "8.0") == pytest.approx(1.0, abs=0.001)


def test_tensor_share_of_an_unknown_architecture_is_not_known() -> None:
    assert expected.tensor_share(1e15, 132, 1830.0, "12.0") is None
    assert expected.tensor_share(None, 132, 1830.0, "9.0") is None
    assert expected.tensor_share(1e15, 132, None, "9.0") is None


def test_peak_bandwidth_of_an_h200() -> None:
    assert expected.peak_bandwidth(3201.0, 6144) == pytest.approx(4.9e12, rel=0.01)
    assert expected.peak_bandwidth(None, 6144) is None


def test_utilization_is_compared_over_the_time_both_cover() -> None:
    ours = {"busy": line(0.31, 2.0, 19.0), "polled": [(2.0, 0.3), (19.0, 0.3)]}

    integrated, polled = expected.utilization(30.0, ours, {"kernel_seconds": line(0.30, 1.0, 18.0)})

    assert (integrated.measured, integrated.reference) == pytest.approx((0.31 * 16, 0.30 * 16))
    assert integrated.error == pytest.approx(3.33, abs=0.01)
    assert polled.error == pytest.approx(0.0)


def test_energy_is_compared_with_every_reading_of_power_there_is() -> None:
    ours = {"energy": line(700.0), "power": flat(693.0)}

    rows = expected.energy(ours, None)

    assert [row.error for row in rows] == [pytest.approx(1.01, abs=0.01), None, None, None]


def test_activity_of_known_multiplications() -> None:
    ours = {"tensor": line(0.8), "sm": line(0.99), "sm_clock": flat(1500.0)}
    load = {"flops": line(0.8 * 4096 * 132 * 1.5e9), "kernel_seconds": line(1.0)}

    tensor, sm = expected.activity(ours, load, 132, "9.0")

    assert tensor.error == pytest.approx(0.0, abs=1e-6)
    assert sm.error == pytest.approx(-1.0)


def test_bandwidth_and_pcie() -> None:
    ours = {"dram": line(0.9), "memory_clock": flat(3000.0), "pcie": line(50e9)}

    (dram,) = expected.bandwidth(ours, {"bytes": line(0.9 * 3000e6 * 2 * 6144 / 8)}, 6144)
    (bus,) = expected.pcie(ours, {"bytes": line(48e9)})

    assert dram.error == pytest.approx(0.0, abs=1e-6)
    assert bus.error == pytest.approx(4.17, abs=0.01)


def test_without_a_load_nothing_is_measured() -> None:
    rows = [
        *expected.utilization(10.0, {}, {}),
        *expected.energy({}, None),
        *expected.activity({}, {}, 0, ""),
        *expected.bandwidth({}, {}, None),
        *expected.pcie({}, {}),
        *expected.second_reader({}, None),
    ]

    assert {row.outcome for row in rows} == {"not measured"}


def test_second_reader_compares_means() -> None:
    rows = expected.second_reader({"sm_clock": flat(1980.0)}, {"sm_clock": flat(1975.0), "power_average": flat(1.0)})

    assert {row.quantity: row.outcome for row in rows if row.measured is not None} == {"sm clock (mean)": "ok"}
