"""The simulated host side: owners, processes, jobs that come and go, and several nodes from one file."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.tools.simulator import SimulatedDriver, parse
from exporter.tools.simulator.scenario_file import node_names
from tests.unit.simulator.simulation import EPOCH, Clock, started

CLUSTER = """
gpus: 4xH200
seed: 5
start: 1800000000
nodes: 3
workloads:
  - {name: llm, pattern: training, scheduler: slurm, user: ada, account: nlp, nodes: [node001, node002], job: 77,
     start: 1m, duration: 1h, every: 2h}
  - {name: web, pattern: inference, scheduler: kubernetes, namespace: serving, nodes: node003, gpus: "0-1,3"}
faults:
  - {kind: thermal, node: node002, gpu: 3, at: 30m, duration: 10m}
  - {kind: lost, node: node003, gpu: 2, at: 1h, xid: 48}
"""


def cluster(folder: Path, node: str, clock: Clock) -> SimulatedDriver:
    path = folder / "cluster.yaml"
    path.write_text(CLUSTER, encoding="utf-8")
    return SimulatedDriver(parse(f"@{path};node={node}"), clock, clock.sleep)


def test_driver_and_node_name_the_same_processes_and_devices() -> None:
    driver, clock = started("6xH200:2*training,inference,allocated-idle,idle-loaded,free", 60.0)
    node = driver.node
    ownership = node.ownership(clock.time)
    by_driver = {
        process.pid: device.uuid
        for device in driver.devices()
        for process in device.call("nvmlDeviceGetComputeRunningProcesses")
    }

    assert set(node.processes(clock.time)) == set(ownership.processes) == set(by_driver)
    for pid, uuid in by_driver.items():
        assert ownership.processes[pid] in ownership.holders[uuid]
    allocated = [len(ownership.holders.get(device.uuid, ())) for device in driver.devices()]
    busy = [len(device.call("nvmlDeviceGetComputeRunningProcesses")) for device in driver.devices()]
    assert (allocated, busy) == ([1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 1, 0])


def test_mig_instances_have_their_own_owners() -> None:
    driver, clock = started("A100-mig:training,free,notebook", 60.0)
    (device,) = driver.devices()
    ownership = driver.node.ownership(clock.time)

    assert [len(ownership.holders.get(each.uuid, ())) for each in device.instances] == [1, 0, 1]
    assert device.uuid not in ownership.holders
    assert [len(each.call("nvmlDeviceGetComputeRunningProcesses")) for each in device.instances] == [1, 0, 1]


def test_every_owner_has_host_readings_and_its_labels_filled() -> None:
    driver, clock = started("8xH200;scheduler=mixed", 60.0)
    node = driver.node
    owners = {owner for holders in node.ownership(clock.time).holders.values() for owner in holders}

    assert set(node.usage(clock.time)) == set(node.signals(clock.time, 1.0)) == owners
    assert {owner.kind for owner in owners} == {"pod", "slurm"}
    assert all(owner.user and owner.account for owner in owners if owner.kind == "slurm")
    assert all(owner.namespace and owner.pod for owner in owners if owner.kind == "pod")


@pytest.mark.parametrize(
    ("pattern", "signal", "least"),
    [
        ("input-bound", "cpu_of_limit", 0.95),
        ("cpu-bound", "hottest_thread", 0.9),
        ("storage-bound", "io_pressure", 0.35),
        ("storage-bound", "blocked_threads", 0.5),
    ],
)
def test_the_host_shows_what_a_pattern_waits_for(pattern: str, signal: str, least: float) -> None:
    driver, clock = started(f"H200:{pattern}", 60.0)
    (signals,) = driver.node.signals(clock.time, 1.0).values()

    assert getattr(signals, signal) >= least


def test_usage_grows_as_the_signals_say() -> None:
    driver, clock = started("2xH200:input-bound", 100.0)
    (before,) = driver.node.usage(clock.time).values()
    (after,) = driver.node.usage(clock.time + 10).values()
    (signals,) = driver.node.signals(clock.time, 1.0).values()

    assert after.cpu_seconds - before.cpu_seconds == pytest.approx(10 * signals.cpu_of_limit * before.cpu_limit_cores)
    assert after.read_bytes - before.read_bytes == pytest.approx(10 * signals.read_bytes_per_second, abs=2)
    assert after.pressure_seconds["cpu"] - before.pressure_seconds["cpu"] == pytest.approx(10 * signals.cpu_pressure)


def test_progress_advances_while_kernels_run() -> None:
    driver, clock = started("3xH200:training,allocated-idle,free", 100.0)
    (progress,) = driver.node.progress(clock.time).values()

    assert progress.samples == pytest.approx(900 * 97, rel=0.02)
    assert progress.steps == pytest.approx(100 * 0.97 / 1.1, abs=2)


def test_before_its_start_a_simulation_stands_still_at_it() -> None:
    clock = Clock()
    driver = SimulatedDriver(parse(f"1xH200:training;start={EPOCH + 1e6:.0f}"), clock, clock.sleep)
    driver.open()

    def told() -> tuple[object, ...]:
        (device,) = driver.devices()
        usage, processes = driver.node.usage(clock.time), driver.node.processes(clock.time)
        return device.call("nvmlDeviceGetTotalEnergyConsumption"), usage, processes

    first = told()
    clock.time += 1000

    assert told() == first
    assert first[0] > 0  # type: ignore[operator]


def test_churn_replaces_owners_and_leaves_gaps() -> None:
    driver, clock = started("2xH200:training,inference;churn=100")
    holders: set[str] = set()
    free = 0
    for second in range(400):
        ownership = driver.node.ownership(clock.time + second)
        holders |= {owner.workload for owners in ownership.holders.values() for owner in owners}
        free += 2 - len(ownership.holders)

    assert 6 <= len(holders) <= 12
    assert 40 <= free <= 160


def test_nodes_of_a_file_share_jobs_but_not_devices(tmp_path: Path) -> None:
    clock = Clock(EPOCH + 120)
    first, second, third = (cluster(tmp_path, f"node00{number}", clock) for number in (1, 2, 3))
    workloads = [
        {owner.workload for owner in driver.node.ownership(clock.time).cgroups} for driver in (first, second, third)
    ]

    assert workloads == [{"slurm:77"}, {"slurm:77"}, {"serving/web"}]
    assert len({device.uuid for driver in (first, second, third) for device in driver.devices()}) == 12
    assert not set(first.node.processes(clock.time)) & set(second.node.processes(clock.time))
    assert node_names(str(tmp_path / "cluster.yaml")) == ("node001", "node002", "node003")


def test_a_job_of_a_file_starts_ends_and_runs_again(tmp_path: Path) -> None:
    clock = Clock(EPOCH)
    driver = cluster(tmp_path, "node001", clock)
    jobs = []
    for minutes in (0, 2, 60, 62, 119, 121, 122):
        owners = driver.node.ownership(EPOCH + minutes * 60).cgroups
        jobs.append([owner.slurm_job for owner in owners])

    ((again,),) = jobs[-1:]
    assert again != "77"
    assert jobs == [[], ["77"], ["77"], [], [], [again], [again]]


def test_faults_of_a_file_hit_their_node_and_gpu_at_their_time(tmp_path: Path) -> None:
    clock = Clock(EPOCH + 35 * 60)
    first, second, third = (cluster(tmp_path, f"node00{number}", clock) for number in (1, 2, 3))
    reasons = [
        [device.call("nvmlDeviceGetCurrentClocksEventReasons") for device in driver.devices()]
        for driver in (first, second)
    ]

    assert reasons == [[0, 0, 0, 0], [0, 0, 0, 0x68]]
    clock.time = EPOCH + 3601
    assert [device.index for device in third.devices()] == [0, 1, 3]
    assert [event.xid for event in third.events(0)] == [48]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1, 2]", "is no mapping; expected keys among gpus"),
        ("gpus: [", "not YAML: "),
        ("seed: 1\nseed: 2", "not YAML: key 'seed' is there twice"),
        ("gpu: 8xH200", "key 'gpu' is not known; expected one of gpus, seed"),
        ("gpus: 8xH300", "expected COUNTxMODEL"),
        ("nodes: 0", "nodes is 0; expected a number from 1 to 4096 or a list of names"),
        ("workloads: 3", "workloads is 3; expected a list"),
        ("workloads: [{pattern: magic}]", "workloads[0]: pattern is 'magic'; expected one of training"),
        ("workloads: [{gpus: 0-9}]", "workloads[0]: gpus is '0-9'; expected GPUs from 0 to 7"),
        ("workloads: [{gpus: 0.1}]", "workloads[0]: gpus is 0.1; expected instances that these GPUs have"),
        ("workloads: [{nodes: n9}]", "workloads[0]: nodes is 'n9'; expected a node among node001"),
        ("workloads: [{duration: 2h, every: 1h}]", "every is '1h'; expected at least the duration"),
        ("workloads: [{start: soon}]", "start is 'soon'; expected a number of at least 0"),
        ("faults: [{kind: thermal, gpu: 8}]", "faults[0]: gpu is 8; expected a number from 0 to 7"),
        ("faults: [{gpu: 1}]", "faults[0]: kind is ''; expected one of thermal"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ValueError, match=r".") as refused:
        parse(f"@{path}")

    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_node_the_file_has_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"node=node9; expected a node of .*: node001"):
        cluster(tmp_path, "node9", Clock())
