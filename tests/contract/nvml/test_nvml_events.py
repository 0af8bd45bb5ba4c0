"""XIDs as the driver's events tell them, on the fake driver library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.fake_nvml.programs import printed

Make = Callable[..., Any]


def test_xids_are_told_with_their_gpu(fake_nvml: Make) -> None:
    code = """
file = scenario()
print(driver.events(0.05))
file.set({"gpu1.event.0": "0 79", "gpu0.event.0": "0 31"})
print(sorted((event.uuid[-1], event.xid, abs(event.timestamp - time.time()) < 60) for event in driver.events(20)))
driver.close(); driver.open(); driver.devices()
file.set({"gpu0.event.1": "0 48"})
print([(event.uuid[-1], event.xid) for event in driver.events(20)])
"""
    assert printed(fake_nvml(), code) == ["()", "[('0', 31, True), ('1', 79, True)]", "[('0', 48)]"]


def test_events_come_again_after_a_failed_wait(fake_nvml: Make) -> None:
    fake = fake_nvml({"call.nvmlEventSetWait_v2": "ERR 15"})

    code = """
print(shown(driver.events, 0.1))
scenario(values={"gpu1.event.0": "0 79"})
print([(event.uuid[-1], event.xid) for event in driver.events(20)])
"""
    assert printed(fake, code) == ["DeviceLostError GPU_IS_LOST", "[('1', 79)]"]


def test_gpu_that_hangs_when_it_is_registered_costs_its_own_xids_alone(fake_nvml: Make) -> None:
    """It is registered once that call has returned; the driver is left open under it meanwhile."""
    fake = fake_nvml({"gpu1.call.nvmlDeviceRegisterEvents": "SLEEP 60", "gpu0.event.0": "0 31", "gpu1.event.0": "0 79"})

    code = """
from exporter.driver.nvml import apart
apart.NEXT_AFTER_SECONDS = apart.ANSWER_TIMEOUT_SECONDS = 0.5
print([(event.uuid[-1], event.xid) for event in driver.events(20)])
print([(event.uuid[-1], event.xid) for event in driver.events(0.1)])
scenario(values={"gpu1.event.0": "0 79"})
heard = ()
while not heard: heard = driver.events(0.1)
print([(event.uuid[-1], event.xid) for event in heard])
"""
    assert printed(fake, code) == ["[('0', 31)]", "[]", "[('1', 79)]"]


def test_waiting_for_events_does_not_hold_up_closing(fake_nvml: Make) -> None:
    code = """
threading.Thread(target=lambda: shown(driver.events, 60)).start()
while "nvmlEventSetWait_v2" not in Path(os.environ["FAKE_NVML_LOG"]).read_text(): time.sleep(0.01)
driver.close()
"""
    fake = fake_nvml()
    printed(fake, code)

    assert fake.calls()[-2:] == ["nvmlEventSetFree", "nvmlShutdown"]


def test_no_gpu_with_events(fake_nvml: Make) -> None:
    fake = fake_nvml({"gpu.events": 0})

    assert printed(fake, "print(shown(driver.events, 0.1))") == ["UnsupportedError NOT_SUPPORTED"]
