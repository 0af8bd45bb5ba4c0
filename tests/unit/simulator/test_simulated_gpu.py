"""Whether the numbers of a simulated GPU agree with each other, and with what it was told to do."""

from __future__ import annotations

import pytest

from exporter.tools.simulator.models import MODELS
from exporter.tools.simulator.patterns import PATTERNS
from tests.unit.simulator.simulation import ALL_LINKS, EPOCH, gpu, started


@pytest.mark.parametrize("spec", ["H200:training", "A100:square", "T4:inference", "A100-mig:training,free,notebook"])
def test_energy_is_the_integral_of_power(spec: str) -> None:
    driver, clock = started(spec, 100.0)
    device = driver.devices()[0]
    start = device.call("nvmlDeviceGetTotalEnergyConsumption")
    joules = 0.0
    for _ in range(1200):
        clock.time += 0.05
        (instant,) = device.call("nvmlDeviceGetFieldValues", ((186, 0),))
        joules += instant / 1000 * 0.05

    assert device.call("nvmlDeviceGetTotalEnergyConsumption") - start == pytest.approx(joules * 1000, rel=0.001)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("pattern", ["training", "free", "leaked-memory", "inference"])
def test_memory_adds_up_and_processes_fit_in_it(model: str, pattern: str) -> None:
    device = gpu(f"{model}:{pattern}")
    memory = device.call("nvmlDeviceGetMemoryInfo")
    processes = device.call("nvmlDeviceGetComputeRunningProcesses")

    assert memory.used + memory.free + memory.reserved == memory.total == MODELS[model].memory * 2**20
    assert sum(process.usedGpuMemory for process in processes) <= memory.used
    assert memory.free > 0


def test_leaked_memory_has_no_process() -> None:
    device = gpu("H100:leaked-memory")

    assert device.call("nvmlDeviceGetComputeRunningProcesses") == ()
    assert device.call("nvmlDeviceGetMemoryInfo").used > 2**34


@pytest.mark.parametrize("name", [name for name, pattern in PATTERNS.items() if name not in {"lost", "hang"}])
def test_samples_have_the_mean_utilization_of_the_pattern(name: str) -> None:
    driver, clock = started(f"2xH200:{name};churn=10000000", 100.0)
    pattern = PATTERNS[name]
    span = 16 * pattern.period * (1 if pattern.period > 10 else 10)
    second = pattern.of_rank(1).duty if pattern.peer_duty is None else pattern.peer_duty
    for device, duty in zip(driver.devices(), (pattern.duty, second), strict=True):
        clock.time = EPOCH + 100
        cursor, total, count = int(clock.time * 1e6), 0.0, 0
        while clock.time < EPOCH + 100 + span:
            clock.time += 5
            samples = device.call("nvmlDeviceGetSamples", 1, cursor)
            cursor = samples[-1][0]
            total, count = total + sum(value for _, value in samples), count + len(samples)

        assert total / count == pytest.approx(100 * duty, abs=1.5)


@pytest.mark.parametrize("period", ["0.3333", "0.4", "1", "7"])
def test_square_wave_is_exact_whatever_its_period(period: str) -> None:
    driver, clock = started(f"H200:square;period={period};duty=0.35", 60.0)
    device = driver.devices()[0]
    cursor, total, count = int(clock.time * 1e6), 0.0, 0
    for _ in range(140):
        clock.time += 1
        samples = device.call("nvmlDeviceGetSamples", 1, cursor)
        cursor = samples[-1][0]
        total, count = total + sum(value for _, value in samples), count + len(samples)

    assert total / count == pytest.approx(35, rel=0.02)


def test_samples_are_newer_than_the_cursor_and_one_buffer_at_most() -> None:
    device = gpu("A10:training", 1000.0)
    everything = device.call("nvmlDeviceGetSamples", 1, 0)
    stamps = [stamp for stamp, _ in everything]

    assert len(everything) == 100
    assert stamps == sorted(stamps)
    assert device.call("nvmlDeviceGetSamples", 1, stamps[-4]) == everything[-3:]
    assert device.call("nvmlDeviceGetSamples", 1, stamps[-1]) == ()
    assert {type(value) for _, value in everything} == {int}


def test_gpm_is_the_mean_since_the_call_before() -> None:
    driver, clock = started("2xH200:training", 6 * 17.6)  # a pair of jitter cells is 16 periods of 1.1 s
    device = driver.devices()[0]
    metrics = (1, 2, 5, 10, 61)

    assert device.call("nvmlGpmMetricsGet", metrics) == {}

    links = device.call("nvmlDeviceGetFieldValues", ((138, ALL_LINKS),))[0]
    clock.time += 17.6
    found = device.call("nvmlGpmMetricsGet", metrics)
    moved = device.call("nvmlDeviceGetFieldValues", ((138, ALL_LINKS),))[0] - links

    assert found[1] == pytest.approx(97, abs=0.1)
    assert found[2] == pytest.approx(97 * 0.88, abs=0.1)
    assert found[61] * 2**20 * 17.6 == pytest.approx(moved * 1024, rel=1e-6)


def test_a_process_uses_what_the_gpu_does() -> None:
    device = gpu("H200:training")
    (process,) = device.call("nvmlDeviceGetComputeRunningProcesses")
    samples = device.call("nvmlDeviceGetProcessUtilization", 0)

    assert {sample.pid for sample in samples} == {process.pid}
    assert len(samples) == 10
    assert all(80 <= sample.smUtil <= 100 for sample in samples)
    assert device.call("nvmlDeviceGetProcessUtilization", samples[-1].timeStamp) == ()


def test_temperature_follows_power_and_stays_under_its_limit() -> None:
    cool, warm, hot = (
        gpu(f"H100:{name}").call("nvmlDeviceGetTemperature", 0) for name in ("free", "training", "thermal")
    )

    assert cool < warm - 20 < hot - 30
    assert hot <= MODELS["H100"].max_temperature + 1


def test_power_cap_is_no_thermal_throttling() -> None:
    device = gpu("H200:power-capped")

    assert device.call("nvmlDeviceGetCurrentClocksEventReasons") == 0x4
    assert device.call("nvmlDeviceGetPowerUsage") <= device.call("nvmlDeviceGetEnforcedPowerLimit")
