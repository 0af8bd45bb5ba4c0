"""The real exporter under the real nvidia-ml-py over a fake driver library that hangs, fails, vanishes and returns."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.exporter_process import COMMAND, FAST, Metrics, Running, exporter
from tests.fake_nvml.scenario import mig_instance, uuid
from tests.stack import poll, program

FakeNvml = Callable[..., Any]
GPU0, GPU1 = uuid(0), uuid(1)


def advances(running: Running, name: str, before: Metrics, **labels: str) -> Metrics:
    """The first scrape in which a counter has grown since `before`."""
    start = before.one(name, **labels)
    assert start is not None

    def attempt() -> Metrics | None:
        found = running.metrics()
        now = found.one(name, **labels)
        return found if now is not None and now > start else None

    return poll(f"{name} to grow", attempt, 30)


def test_hung_gpu_costs_only_its_own_series(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    fake = fake_nvml()
    with exporter(tmp_path, *FAST, environment=fake.environment) as running:
        before = running.until("both GPUs", "gpu_up", 1.0, uuid=GPU1)
        assert before.one("gpu_utilization_ratio", uuid=GPU1) == 0.4

        fake.scenario.set({"gpu1.call.*": "SLEEP 60"})
        silent = running.until("the gauges of GPU 1 to vanish", "gpu_utilization_ratio", None, uuid=GPU1)

        assert silent.one("gpu_utilization_ratio", uuid=GPU0) == 0.4
        assert silent.one("gpu_up", uuid=GPU1) == 0.0
        assert silent.went_back(before) == []
        hung = advances(running, "gpu_state_seconds_total", silent, uuid=GPU1, state="unobserved")
        advances(running, "gpu_busy_seconds_total", silent, uuid=GPU0)
        assert hung.one("gpu_exporter_device_sample_age_seconds", uuid=GPU1) > 1.0

        fake.scenario.remove("gpu1.call.*")
        back = running.until("GPU 1 to answer", "gpu_up", 1.0, uuid=GPU1)
        assert back.went_back(hung) == []
        running.until("its gauges", "gpu_utilization_ratio", 0.4, uuid=GPU1)


def test_hung_gpu_does_not_delay_the_end(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    fake = fake_nvml()
    with exporter(tmp_path, *FAST, environment=fake.environment) as running:
        running.until("both GPUs", "gpu_up", 1.0, uuid=GPU1)
        fake.scenario.set({"gpu1.call.*": "SLEEP 60"})
        running.until("GPU 1 to hang", "gpu_up", 0.0, uuid=GPU1)

        assert running.terminate(within=2) == 0


def test_hung_gpu_does_not_hold_up_a_capture(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    fake, file = fake_nvml({"gpu1.call.nvmlDeviceGetPowerUsage": "SLEEP 60"}), tmp_path / "bug.json"
    command = (*COMMAND, "capture", str(file), "--capture.duration", "1s")

    done = subprocess.run(command, env=fake.environment, capture_output=True, text=True, timeout=50, check=False)

    assert done.returncode == 0, done.stderr
    assert "GPU 1 hangs: no answer to nvmlDeviceGetPowerUsage" in done.stderr
    assert [device["index"] for device in json.loads(file.read_text())["devices"]] == [0, 1]


def test_lost_gpu_is_reported_and_taken_back(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    fake = fake_nvml()
    with exporter(tmp_path, *FAST, environment=fake.environment) as running:
        before = running.until("both GPUs", "gpu_up", 1.0, uuid=GPU1)
        poll("XIDs to be waited for", lambda: "nvmlDeviceRegisterEvents gpu1" in fake.calls() or None)

        fake.scenario.set({"gpu1.lost": 1, "gpu1.event.0": "0 79"})
        lost = running.until("GPU 1 to be lost", "gpu_devices", 1.0, source="driver")

        assert lost.one("gpu_up", uuid=GPU1) == 0.0
        assert lost.one("gpu_up", uuid=GPU0) == 1.0
        assert lost.went_back(before) == []
        running.until("its XID", "gpu_xid_errors_total", 1.0, uuid=GPU1, xid="79")
        advances(running, "gpu_busy_seconds_total", lost, uuid=GPU0)

        fake.scenario.remove("gpu1.lost", "gpu1.event.0")
        back = running.until("GPU 1 to return", "gpu_up", 1.0, uuid=GPU1)
        assert back.went_back(lost) == []


def test_driver_that_fails_at_start_is_taken_up_when_it_recovers(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    fake = fake_nvml({"call.nvmlInitWithFlags": "ERR 9"})
    with exporter(tmp_path, *FAST, environment=fake.environment) as running:
        running.until("the reason", "gpu_exporter_driver_error", 1.0, error="DRIVER_NOT_LOADED")
        answer = requests.get(f"{running.url}/-/ready", timeout=1)
        assert (answer.status_code, answer.text) == (503, "not ready: driver not available: DRIVER_NOT_LOADED\n")

        fake.scenario.remove("call.nvmlInitWithFlags")
        there = running.until("the GPUs", "gpu_up", 1.0, uuid=GPU1)

        assert there.all("gpu_exporter_driver_error") == []
        assert requests.get(f"{running.url}/-/ready", timeout=1).status_code == 200


def test_driver_that_vanishes_leaves_counters_and_comes_back(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    fake = fake_nvml({"gpu.energy_mj": "rate 350000 base 123456789"})
    with exporter(tmp_path, *FAST, environment=fake.environment) as running:
        before = running.until("both GPUs", "gpu_up", 1.0, uuid=GPU1)

        fake.scenario.set({"driver_gone": 1})
        gone = running.until("the reason", "gpu_exporter_driver_error", 1.0, error="DRIVER_NOT_LOADED")
        assert gone.went_back(before) == []
        assert running.until("gauges to vanish", "gpu_power_watts", None, uuid=GPU0).one("gpu_up", uuid=GPU0) == 0.0

        # A reloaded driver counts from 0 again.
        fake.scenario.set({"gpu.energy_mj": "rate 350000"})
        fake.scenario.remove("driver_gone")
        back = running.until("both GPUs", "gpu_up", 1.0, uuid=GPU0)
        later = advances(running, "gpu_energy_joules_total", back, uuid=GPU0)
        assert later.went_back(gone) == []


def test_mismatch_of_library_and_module_is_named(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    fake = fake_nvml({"call.nvmlInitWithFlags": "ERR 18"})
    with exporter(tmp_path, *FAST, environment=fake.environment) as running:
        running.until("the reason", "gpu_exporter_driver_error", 1.0, error="LIB_RM_VERSION_MISMATCH")


def test_driver_of_2021_gives_what_it_has(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    fake = fake_nvml({"driver_version": "470.57.02", "gpu.gpm": 0}, branch="470")
    with exporter(tmp_path, *FAST, environment=fake.environment) as running:
        found = running.until("both GPUs", "gpu_up", 1.0, uuid=GPU1)

        assert found.one("gpu_utilization_ratio", uuid=GPU0) == 0.4
        assert found.one("gpu_power_watts", uuid=GPU0) == 350.0
        assert found.one("gpu_temperature_celsius", uuid=GPU0, sensor="gpu") == 45.0
        assert found.all("gpu_sm_active_seconds_total") == []
        assert set(found.all("gpu_scrape_collector_success")) == {1.0}


def test_mig_instances_have_families_of_their_own(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    fake = fake_nvml({**mig_instance(0, 1, 3, "1g.10gb"), **mig_instance(0, 4, 5, "3g.40gb")})
    with exporter(tmp_path, *FAST, environment=fake.environment) as running:
        running.until("the GPUs", "gpu_up", 1.0, uuid=GPU0)
        found = running.metrics()

        assert len(found.all("gpu_mig_memory_total_bytes", parent_uuid=GPU0)) == 2
        assert found.one("gpu_mig_memory_total_bytes", profile="1g.10gb") == 10 * 2**30
        assert len(found.all("gpu_memory_total_bytes")) == 2  # GPUs, not instances


def test_scrapes_never_call_the_driver(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    fake = fake_nvml()
    seldom = ("--sample.interval", "1m", "--collectors.disable=xid")
    with exporter(tmp_path, *seldom, environment=fake.environment) as running:
        running.until("both GPUs", "gpu_up", 1.0, uuid=GPU1)
        calls = running.metrics().one("gpu_exporter_driver_calls_total")
        before = [call for call in fake.calls() if "EventSetWait" not in call]
        for _ in range(20):
            running.metrics()

        assert [call for call in fake.calls() if "EventSetWait" not in call] == before
        assert running.metrics().one("gpu_exporter_driver_calls_total") == calls


@pytest.mark.parametrize("spec", ["branch 580", "branch 470"])
def test_promtool_accepts_the_exposition(fake_nvml: FakeNvml, tmp_path: Path, spec: str) -> None:
    branch = spec.split()[1]
    version = {"580": "580.95.05", "470": "470.57.02"}[branch]
    fake = fake_nvml({"driver_version": version}, branch=branch)
    with exporter(tmp_path, *FAST, environment=fake.environment) as running:
        running.until("both GPUs", "gpu_up", 1.0, uuid=GPU1)
        text = requests.get(f"{running.url}/metrics", timeout=1).content

    done = subprocess.run([program("promtool"), "check", "metrics"], input=text, capture_output=True, check=False)

    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_once_waits_for_a_driver_that_is_slow_to_open(fake_nvml: FakeNvml) -> None:
    """It had its two cycles before the driver was there."""
    fake = fake_nvml({f"call.{init}": "SLEEP 3" for init in ("nvmlInit_v2", "nvmlInitWithFlags")})
    done = subprocess.run(
        [*COMMAND, "once"], env=fake.environment, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr
    assert f'gpu_up{{gpu="0",uuid="{GPU0}"}} 1.0' in done.stdout
