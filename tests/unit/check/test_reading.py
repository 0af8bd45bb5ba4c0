"""What the check reads of a node where no exporter runs, and that both ways to facts are one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from exporter.attribution.owner import Target
from exporter.collectors import COLLECTORS
from exporter.collectors.base import Paced
from exporter.collectors.processes import GpuProcess, Processes
from exporter.core.clock import Moment, MonotonicTime, UnixTime
from exporter.core.units import Bytes
from exporter.driver.interface import Driver
from exporter.faults.rule import from_blocks
from exporter.host.model import HostProcess
from exporter.sampling.blocks import device_blocks
from exporter.sampling.gpus import Gpu
from exporter.sampling.host_view import Host, HostQuestion
from exporter.sampling.reader import read_gpu
from exporter.sampling.sampler import Pacing, Sampler
from exporter.tools.check import reading
from exporter.tools.check.reading import PciHost, from_json, read_node, to_json
from exporter.tools.simulator import simulate
from tests.unit.host.rdma_tree import pci_device, rdma_port

NOW = UnixTime(1_700_000_000.0)
MOMENT = Moment(NOW, MonotonicTime(0.0))
DEADLINE = 60.0


@pytest.fixture
def kmsg(tmp_path: Path) -> Path:
    path = tmp_path / "kmsg"
    path.write_text("3,1,2000000,-;NVRM: Xid (PCI:0000:ff:00): 79, pid=7, name=x\n")
    return path


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, kmsg: Path) -> Iterator[Callable[[Driver], str]]:
    """Reads a node; the threads, which end with the program that checks, end with the test."""
    made: list[Sampler] = []

    class Kept(Sampler):
        def __init__(self, *parts: Any, **more: Any) -> None:
            super().__init__(*parts, **more)
            made.append(self)
            (pacing,) = (part for part in parts if isinstance(part, Pacing))
            assert 2 * pacing.deadline < DEADLINE, "to open the driver, to read the GPUs, and to write"

    monkeypatch.setattr(reading, "Sampler", Kept)
    yield lambda driver: read_node(driver, Host(), COLLECTORS, kmsg, DEADLINE)
    for sampler in made:
        sampler.stop()


def test_every_gpu_of_the_driver_is_read_once(read: Callable[[Driver], str]) -> None:
    facts = from_json(read(simulate("2xH200:training")), NOW)

    assert facts.models == ("NVIDIA H200", "NVIDIA H200")
    assert [(series.gpu, series.value) for series in facts.of("gpu_up")] == [("0", 1.0), ("1", 1.0)]
    assert facts.value("gpu_devices", source="driver") == 2.0


def test_thread_that_asks_no_gpu_costs_no_verdict(
    read: Callable[[Driver], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def starts(thread: threading.Thread) -> None:
        if thread.name == "network-ports":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starts)
    monkeypatch.setattr(Host, "start", lambda _, threads: threads.start("network-ports", lambda: None))

    facts = from_json(read(simulate("1xH200:training")), NOW)

    assert [series.value for series in facts.of("gpu_up")] == [1.0]


def test_xids_of_the_kernel_log_are_read_with_the_gpus(read: Callable[[Driver], str], kmsg: Path) -> None:
    driver = simulate("1xH200:training")
    bus = driver.devices()[0].pci_bus_id
    kmsg.write_text(kmsg.read_text().replace("0000:ff:00", bus.rpartition(".")[0]))

    facts = from_json(read(driver), NOW)

    assert [(each.gpu, each.labels["xid"]) for each in facts.of("gpu_xid_last_timestamp_seconds")] == [("0", "79")]


def test_facts_survive_json() -> None:
    device = simulate("1xH200:training", lambda: NOW).devices()[0]
    states = read_gpu(device, {}, COLLECTORS, NOW, MonotonicTime(0.0), {}).states
    blocks = tuple(device_blocks(Gpu(device, states, answered=MonotonicTime(0.0)), MonotonicTime(0.0), 10.0, set()))

    facts = from_blocks(blocks, NOW)

    assert len(facts.series) > 20
    assert from_json(to_json(facts), NOW) == facts


def test_gpu_whose_nearest_port_is_down_is_found(tmp_path: Path) -> None:
    gpu, near, far = (f"pci0000:{bus}/0000:{bus}:01.0" for bus in ("15", "15", "48"))
    pci_device(tmp_path, f"{gpu}/0000:18:00.0")
    rdma_port(tmp_path, "mlx5_0", f"{near}/0000:1a:00.0", state="1: DOWN")
    rdma_port(tmp_path, "mlx5_1", f"{far}/0000:4a:00.0", numa=1)
    targets = [Target("GPU-0", 0, "0000:18:00.0")]

    found = PciHost(tmp_path, Path("/proc")).view(HostQuestion(MOMENT, {}, gpus=targets))

    assert found.ports.troubled_gpus == {"GPU-0"}


def test_gpus_of_the_pci_bus_are_counted_where_it_is_shown(tmp_path: Path) -> None:
    folder = pci_device(tmp_path, "pci0000:15/0000:15:01.0/0000:18:00.0")
    for name, text in (("vendor", "0x10de"), ("class", "0x030200")):
        (folder / name).write_text(f"{text}\n")

    assert PciHost(tmp_path, Path("/proc")).view(HostQuestion(MOMENT, {})).pci_gpus == 1


def test_processes_of_slurm_jobs_are_known_by_their_cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = {pid: _host(pid, path) for pid, path in ((7, "/slurm/uid_1000/job_4711/step_batch"), (8, "/user.slice"))}

    monkeypatch.setattr("exporter.host.process.read", lambda pid, _: hosts.get(pid))
    running = tuple(GpuProcess(pid, "GPU-0", None, {}) for pid in (*hosts, 9))
    listed = {"GPU-0": Processes(running, Paced(running, NOW), None, 0)}

    view = PciHost(tmp_path, Path("/proc")).view(HostQuestion(MOMENT, listed))
    known = view.ownership.processes

    assert view.processes == hosts

    assert {pid: owner.slurm_job for pid, owner in known.items()} == {7: "4711"}


def _host(pid: int, path: str) -> HostProcess:
    return HostProcess(pid, "python3", "ada", NOW, 0.0, Bytes(0), f"4:freezer:{path}\n")
