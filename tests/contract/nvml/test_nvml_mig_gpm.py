"""MIG instances and GPM, on the fake driver library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.fake_nvml.programs import answers, printed
from tests.fake_nvml.scenario import mig_instance

Make = Callable[..., Any]


def test_mig_instances_at_scattered_places(fake_nvml: Make) -> None:
    fake = fake_nvml(
        {
            **mig_instance(1, 1, 3, "3g.40gb"),
            **mig_instance(1, 4, 9, "1c.2g.20gb"),
            "gpu1.process.0": "5 C 100 0 0 0 0 4",
        }
    )

    code = """
for i in gpus[1].instances:
    mig = replace(i.mig, share=round(i.mig.share, 2))
    print(i.uuid[-2:], i.parent_uuid == gpus[1].uuid, i.index, i.pci_bus_id, mig)
print(shown(gpus[1].call, "nvmlDeviceGetUtilizationRates"), gpus[1].instances[0].call("nvmlDeviceGetMemoryInfo").used)
print([i.call("nvmlDeviceGetComputeRunningProcesses") for i in gpus[1].instances])
"""
    assert printed(fake, code) == [
        "01 True 1 0000:1b:00.0 Mig(gpu_instance=3, compute_instance=0, profile='3g.40gb', share=0.43)",
        "04 True 1 0000:1b:00.0 Mig(gpu_instance=9, compute_instance=0, profile='1c.2g.20gb', share=0.14)",
        f"UnsupportedError NOT_SUPPORTED {1 << 30}",
        "[(), (Record(pid=5, usedGpuMemory=100, gpuInstanceId=9, computeInstanceId=0),)]",
    ]


def test_mig_instance_without_a_uuid_is_none(fake_nvml: Make) -> None:
    fake = fake_nvml({**mig_instance(0, 0, 1, "1g.10gb"), **mig_instance(0, 1, 2, "1g.10gb"), "gpu0.mig0.uuid": ""})

    assert printed(fake, "print([each.mig.gpu_instance for each in gpu.instances])") == ["[2]"]


def test_mig_share_by_name_where_the_driver_tells_no_attributes(fake_nvml: Make) -> None:
    fake = fake_nvml(
        {**mig_instance(0, 0, 1, "2g.12gb"), "gpu0.mig_places": 4, "call.nvmlDeviceGetAttributes_v2": "ERR 3"}
    )

    assert printed(fake, "print(gpu.instances[0].mig.share)") == ["0.5"]


def test_gpm_tells_what_happened_between_two_calls(fake_nvml: Make) -> None:
    fake = fake_nvml({"gpu.gpm.3": "ERR 3", "gpu.gpm.5": "nan", **mig_instance(1, 2, 7, "1g.10gb")})

    code = """
now = [5.0]
everything = (gpu, gpus[1].instances[0])
for device in everything: device.target.meter._clock = lambda: now[0]
print([device.call("nvmlGpmMetricsGet", (1, 2, 3, 5)) for device in everything])
now[0] += 0.5
print([device.call("nvmlGpmMetricsGet", (1, 2, 3, 5)) for device in everything])
driver.close()
"""
    assert printed(fake, code) == ["[{}, {}]", "[{0: 0.5, 1: 40.0, 2: 35.0}, {0: 0.5, 1: 72.5, 2: 61.5}]"]
    allocated = fake.calls().count("nvmlGpmSampleAlloc")
    assert allocated == fake.calls().count("nvmlGpmSampleFree") == 4


def test_gpm_samples_too_close_together_keep_the_window_open(fake_nvml: Make) -> None:
    code = """
now = [5.0]
gpu.target.meter._clock = lambda: now[0]
for seconds in (0.0, 0.0625, 0.0625): now[0] += seconds; print(gpu.call("nvmlGpmMetricsGet", (1,)))
"""
    assert printed(fake_nvml(), code) == ["{}", "{}", "{0: 0.125, 1: 40.0}"]


def test_gpu_whose_gpm_is_slow_keeps_the_others_waiting_now_and_then_alone(fake_nvml: Make) -> None:
    """Each call takes 0.5 s by the clock, which may be so once; the answer after the rest covers all of it."""
    code = """
now = [0.0]
meter = gpu.target.meter
meter._clock = lambda: now[0]
fill = meter._fill
def slow(sample): now[0] += 0.5; fill(sample)
meter._fill = slow
for second in range(1, 14): now[0] = max(now[0], second); print(second, gpu.call("nvmlGpmMetricsGet", (1,)))
"""
    assert printed(fake_nvml(), code) == [
        "1 {}",
        "2 {0: 1.0, 1: 40.0}",
        *[f"{second} {{}}" for second in range(3, 13)],
        "13 {0: 11.0, 1: 40.0}",
    ]


def test_gpm_that_was_slow_once_is_asked_on(fake_nvml: Make) -> None:
    code = """
now, took = [0.0], [0.0, 0.5, 0.0, 0.5, 0.0]
meter = gpu.target.meter
meter._clock = lambda: now[0]
fill = meter._fill
def slow(sample): now[0] += took.pop(0); fill(sample)
meter._fill = slow
for second in range(1, 6): now[0] = second; print(gpu.call("nvmlGpmMetricsGet", (1,)))
"""
    assert printed(fake_nvml(), code) == ["{}", *[f"{{0: {seconds}, 1: 40.0}}" for seconds in (1.5, 0.5, 1.5, 0.5)]]


def test_gpu_whose_gpm_is_slow_to_fail_keeps_the_others_waiting_now_and_then_alone(fake_nvml: Make) -> None:
    """Each call takes 0.5 s by the clock and fails but the last: the failure stands while the device rests."""
    code = """
from exporter.driver.interface import DriverError
now, asked = [0.0], []
meter = gpu.target.meter
meter._clock = lambda: now[0]
def slow(sample):
    now[0] += 0.5
    asked.append(now[0])
    if len(asked) < 4: raise DriverError("nvmlGpmSampleGet: no answer", "TIMEOUT")
meter._fill = slow
for second in range(1, 26): now[0] = max(now[0], second); print(shown(gpu.call, "nvmlGpmMetricsGet", (1,)))
print(asked)
"""
    assert printed(fake_nvml(), code) == [*["DriverError TIMEOUT"] * 23, *["{}"] * 2, "[1.5, 2.5, 13.5, 24.5]"]


def test_gpu_that_is_lost_for_a_moment_has_its_gpm_read_at_once(fake_nvml: Make) -> None:
    code = """
from exporter.driver.interface import DeviceLostError
now, lost = [0.0], [True]
meter = gpu.target.meter
meter._clock = lambda: now[0]
def slow(sample):
    now[0] += 0.5
    if lost[0]: raise DeviceLostError("nvmlGpmSampleGet: lost")
meter._fill = slow
print(shown(gpu.call, "nvmlGpmMetricsGet", (1,)))
lost[0] = False
print(shown(gpu.call, "nvmlGpmMetricsGet", (1,)))
"""
    assert printed(fake_nvml(), code) == ["DeviceLostError GPU_IS_LOST", "{}"]


def test_gpm_window_survives_a_new_enumeration(fake_nvml: Make) -> None:
    code = """
gpu.call("nvmlGpmMetricsGet", (1,))
time.sleep(0.12)
print(driver.devices()[0].call("nvmlGpmMetricsGet", (1,))[1])
"""
    assert printed(fake_nvml(), code) == ["40.0"]


def test_no_gpm_is_probed_once(fake_nvml: Make) -> None:
    fake = fake_nvml({"gpu.gpm": 0})

    assert answers(fake, *[("nvmlGpmMetricsGet", (1,))] * 3) == ["UnsupportedError NOT_SUPPORTED"] * 3
    assert fake.calls().count("nvmlGpmQueryDeviceSupport gpu0") == 1


def test_gpu_that_hangs_in_gpm_does_not_keep_the_others_from_it(fake_nvml: Make) -> None:
    fake = fake_nvml({"gpu1.call.nvmlGpmSampleGet": "SLEEP 60"})

    code = """
threading.Thread(target=gpus[1].get, args=("nvmlGpmMetricsGet", (1,)), daemon=True).start()
while "nvmlGpmSampleGet gpu1" not in Path(os.environ["FAKE_NVML_LOG"]).read_text(): time.sleep(0.01)
print(gpu.call("nvmlGpmMetricsGet", (1,)))
time.sleep(0.12)
print(gpu.call("nvmlGpmMetricsGet", (1,))[1])
"""
    assert printed(fake, code) == ["{}", "40.0"]


def test_hung_gpu_leaves_the_others_and_closing_leaves_the_driver_open_under_it(fake_nvml: Make) -> None:
    fake = fake_nvml({"gpu1.call.nvmlDeviceGetPowerUsage": "SLEEP 60"})

    code = """
threading.Thread(target=gpus[1].get, args=("nvmlDeviceGetPowerUsage",), daemon=True).start()
while "nvmlDeviceGetPowerUsage gpu1" not in Path(os.environ["FAKE_NVML_LOG"]).read_text(): time.sleep(0.01)
print(gpu.call("nvmlDeviceGetPowerUsage"))
driver.close()
print(shown(gpu.call, "nvmlDeviceGetPowerUsage"))
"""
    assert printed(fake, code) == ["350000", "DriverGoneError UNINITIALIZED"]
    assert "nvmlShutdown" not in fake.calls()
