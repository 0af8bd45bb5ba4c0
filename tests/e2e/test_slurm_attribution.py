"""Owners of jobs that a real Slurm runs on this machine, with all of its sources and without each of them."""

from __future__ import annotations

import signal
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.attribution.owner import NOBODY, Owner, Ownership
from tests.attribution_kit.exporter import exporting, owner_of, series, shown_holders, shown_jobs, total
from tests.attribution_kit.nodes import becomes, until
from tests.attribution_kit.slurm_cluster import LACKING, TRACKING, SlurmCluster
from tests.attribution_kit.slurm_observer import Observer, holders, jobs_of, observing, of_jobs, owner, truth
from tests.fake_nvml.fixture import FakeNvml
from tests.fake_nvml.scenario import GIB, Value, node

PROGRAMS = 7
"""Two steps of the batch job, two array elements, the srun, two shard jobs."""


pytestmark = [pytest.mark.xdist_group("slurm"), pytest.mark.skipif(bool(LACKING), reason=LACKING)]


@pytest.fixture(scope="module", params=TRACKING)
def cluster(request: pytest.FixtureRequest) -> Iterator[SlurmCluster]:
    with SlurmCluster(request.param) as started:
        hold = started.hold
        steps = f"srun -Q --exact -n1 --gres=gpu:1 {hold} & srun -Q --exact -n1 --gres=gpu:1 {hold} & wait"
        batch = ("sbatch", "-Q", "-o", "/dev/null")
        started.run("salloc", "-Q", "--no-shell", "-J", "idle", "--gres=gpu:1", "--time=60")
        started.run(*batch, "-J", "train", "-A", "physics", "--uid=games", "-n2", "--gres=gpu:2", "--wrap", steps)
        started.run(*batch, "-J", "sweep", "--array=7,9%2", "--gres=gpu:1", "--wrap", f"exec {hold}")
        started.spawn("srun", "-Q", "-J", "direct", "--gres=gpu:1", hold)
        started.run(*batch, "-J", "third", "--gres=shard:1", "--wrap", f"exec {hold}")
        started.run(*batch, "-J", "most", "--gres=shard:3", "--wrap", f"exec {hold}")
        until(lambda: len(started.allocated_to()) == PROGRAMS, 60)
        yield started


@pytest.mark.parametrize("mapping", [True, False], ids=["with-files", "without-files"])
def test_every_job_and_the_idle_allocation_hold_what_slurm_gave_them(cluster: SlurmCluster, mapping: bool) -> None:  # noqa: FBT001 - a parameter
    expected = truth(cluster)
    if not mapping and cluster.tracking == "linuxproc":  # nothing on the node tells of an allocation without a process
        idle = owner(cluster.job("idle"))
        expected = {uuid: owners for uuid, owners in expected.items() if idle not in owners}
    with observing(cluster, mapping=mapping) as observer:
        becomes(expected, lambda: holders(observer.observe()))
        ownership = observer.observe()

    assert of_jobs(ownership) == jobs_of(cluster)
    assert all(health.success and not health.conflicts for health in ownership.health), ownership.health


def test_idle_allocation_has_no_process_but_a_holder(cluster: SlurmCluster) -> None:
    idle = owner(cluster.job("idle"))
    with observing(cluster) as observer:
        until(lambda: _name(observer, idle) == "idle")
        ownership = observer.observe()

    assert idle not in ownership.processes.values()
    assert [uuid for uuid, owners in ownership.holders.items() if owners == (idle,)] != []
    assert ownership.info[idle].job_name == "idle"
    assert ownership.info[idle].time_limit_seconds == 3600


def _name(observer: Observer, who: Owner) -> str:
    """The job's name, which slurmctld tells a moment after the prolog told whose it is."""
    found = observer.observe().info.get(who)
    return found.job_name if found else ""


def _weights(ownership: Ownership) -> dict[Owner, float]:
    """Fraction of its last GPU, by owner."""
    return {owner: round(fraction, 6) for (_, owner), fraction in ownership.weights.items()}


def test_array_elements_are_told_apart(cluster: SlurmCluster) -> None:
    elements = {owner(job) for job in cluster.jobs("sweep")}
    with observing(cluster) as observer:
        until(lambda: all(_name(observer, each) == "sweep" for each in elements))
        info = observer.observe().info

    assert {info[each].slurm_array_task for each in elements} == {"7", "9"}
    assert len({info[each].slurm_array_job for each in elements}) == 1


def test_shards_of_one_gpu_are_shared_by_their_number(cluster: SlurmCluster) -> None:
    third, most = owner(cluster.job("third")), owner(cluster.job("most"))
    with observing(cluster) as observer:
        # Slurm 22.05 is asked for the amounts in a second question.
        until(lambda: {third: 1 / 4, most: 3 / 4}.items() <= _weights(observer.observe()).items())
        ownership = observer.observe()
    shared = next(uuid for uuid, owners in ownership.holders.items() if third in owners)

    assert set(ownership.holders[shared]) == {third, most}
    assert ownership.weights[shared, third] == pytest.approx(1 / 4)
    assert ownership.weights[shared, most] == pytest.approx(3 / 4)
    for uuid, owners in ownership.holders.items():
        assert sum(ownership.weights[uuid, each] for each in owners) == pytest.approx(1)


def test_own_cgroup_of_a_job_is_the_jobs(cluster: SlurmCluster) -> None:
    train = owner(cluster.job("train"), "games", "physics")
    with observing(cluster) as observer:
        until(lambda: train in observer.observe().info)
        path = observer.observe().cgroups.get(train)

    if cluster.tracking == "cgroup":
        assert path is not None
        assert Path(f"/sys/fs/cgroup/freezer{path}/cgroup.procs").exists()
        assert path.endswith(f"/job_{train.slurm_job}")
    else:
        assert path is None


def test_without_slurmctld_and_files_the_environment_tells_with_low_trust(cluster: SlurmCluster) -> None:
    expected = {uuid: {each.slurm_job for each in owners} for uuid, owners in truth(cluster).items()}
    idle, train = cluster.job("idle"), cluster.job("train")
    with observing(cluster, mapping=False, scontrol=False) as observer:
        until(lambda: owner(train, "games", "physics") in observer.observe().info)
        becomes(jobs_of(cluster), lambda: of_jobs(observer.observe()))
        ownership = observer.observe()

    found = {uuid: {each.slurm_job for each in owners} for uuid, owners in ownership.holders.items()}
    assert found == {uuid: jobs for uuid, jobs in expected.items() if jobs != {idle}}
    assert {info.trust for info in ownership.info.values()} == {"low"}


def test_job_that_left_a_file_or_a_cgroup_holds_nothing_within_a_minute(cluster: SlurmCluster) -> None:
    """As after an epilog that was killed: beside an idle allocation, which stays."""
    idle = owner(cluster.job("idle"))
    file = cluster.work / "gpumap/job_99999"
    file.write_text("SLURM_JOB_ID=99999\nSLURM_JOB_GPUS=7\nSLURM_JOB_USER=root\n")
    kept = Path(f"/sys/fs/cgroup/freezer/slurm_{cluster.node}/uid_0/job_99998")
    if cluster.tracking == "cgroup":
        kept.mkdir(parents=True)
    try:
        with observing(cluster) as observer:
            until(lambda: "99999" in {each.slurm_job for each in observer.observe().info})
            until(lambda: "99999" not in {each.slurm_job for each in observer.observe().info}, 60)
            until(lambda: _stale(observer) == (2 if cluster.tracking == "cgroup" else 1), 60)
            assert idle in observer.observe().info
    finally:
        file.unlink()
        if cluster.tracking == "cgroup":
            kept.rmdir()


def _stale(observer: Observer) -> int | None:
    return {health.source: health.stale for health in observer.observe().health}["slurm_steps"]


def test_program_of_the_jobs_user_outside_of_it_is_the_jobs_and_somebody_elses_is_a_conflict(
    cluster: SlurmCluster,
) -> None:
    train = owner(cluster.job("train"), "games", "physics")
    minor = next(
        iter(min((minors for job, minors in cluster.allocated_to().values() if job == train.slurm_job), key=min))
    )
    said = {"games": dict[str, str](), "daemon": {"SLURM_JOB_ID": train.slurm_job, "SLURM_JOB_USER": "games"}}
    programs = {user: subprocess.Popen(["sleep", "600"], user=user, cwd="/", env=env) for user, env in said.items()}
    try:
        with observing(cluster) as observer:
            until(lambda: train in observer.observe().info)
            observer.also = {programs["games"].pid: minor}
            mine = observer.observe()
            observer.also = {programs["daemon"].pid: minor}
            somebody_elses = observer.observe()
    finally:
        for program in programs.values():
            program.kill()
            program.wait(20)

    assert mine.processes[programs["games"].pid] == train
    assert mine.info[train].trust == "inferred"
    assert all(not health.conflicts for health in mine.health)
    assert somebody_elses.processes[programs["daemon"].pid].slurm_job == ""
    assert {health.source: health.conflicts for health in somebody_elses.health}["slurm_mapping"] == 1


def test_jobs_that_slurmctld_hides_have_their_labels_from_the_prolog_and_show_in_health(cluster: SlurmCluster) -> None:
    """PrivateData=jobs, and an exporter that is no operator of Slurm's, as its unit has it."""
    train = owner(cluster.job("train"), "games", "physics")
    conf = cluster.work / "etc/slurm.conf"
    before = conf.read_text()
    conf.write_text(f"{before}PrivateData=jobs\n")
    cluster.run("scontrol", "reconfigure")
    try:
        with observing(cluster, as_nobody=True) as observer:
            until(lambda: train in observer.observe().info)
            if cluster.tracking == "cgroup":  # the job runs here, as its cgroup shows
                until(lambda: not _success(observer, "slurm_scontrol"))
            shown = observer.observe()
    finally:
        conf.write_text(before)
        cluster.run("scontrol", "reconfigure")

    assert {each.slurm_job for each in shown.info} >= {train.slurm_job, cluster.job("idle")}
    assert _success(observer, "slurm_mapping")


def _success(observer: Observer, source: str) -> bool:
    return {health.source: health.success for health in observer.observe().health}[source]


MakeFake = Callable[..., FakeNvml]


def running_on(cluster: SlurmCluster) -> dict[str, Value]:
    """The fake driver's node: eight GPUs with the jobs' real pids, the Nth of them with N GiB."""
    processes = {
        f"gpu{minor}.process.{place}": f"{pid} C {(place + 1) * GIB} 30 5 0 0"
        for place, (pid, (_, minors)) in enumerate(sorted(cluster.allocated_to().items()))
        for minor in minors
    }
    quiet = set(range(8)) - {minor for _, minors in cluster.allocated_to().values() for minor in minors}
    return {**node(8), **{f"gpu{minor}.utilization": 0 for minor in quiet}, **processes}


def options(cluster: SlurmCluster) -> dict[str, object]:
    return {
        "attribution.kubernetes": "off",
        "attribution.slurm": "on",
        "attribution.slurm.mapping-dir": cluster.work / "gpumap",
        "slurm.scontrol": cluster.scontrol,
        "attribution.slurm.gres-conf": cluster.work / "etc/gres.conf",
    }


def environment(cluster: SlurmCluster, fake: FakeNvml) -> dict[str, str]:
    return {**fake.environment, "SLURMD_NODENAME": cluster.node}


def energies(url: str) -> dict[Owner, float]:
    found = {owner_of(each): each.value for each in series(url, "gpu_workload_energy_joules_total")}
    return {each: joules for each, joules in found.items() if each != NOBODY}


def await_shares(cluster: SlurmCluster, observer: Observer, url: str) -> None:
    """Wait until slurmctld has answered both about the jobs with shards, the only ones that it is asked about."""
    shares = {owner(cluster.job("third")): 1 / 4, owner(cluster.job("most")): 3 / 4}
    until(lambda: shares.items() <= _weights(observer.observe()).items())
    until(
        lambda: shares.items() <= {owner_of(each): each.value for each in series(url, "gpu_allocation_ratio")}.items()
    )


def jobs_by_gpu(ownership: Ownership) -> dict[str, set[str]]:
    return {uuid: {each.slurm_job for each in owners} for uuid, owners in ownership.holders.items()}


def test_exporter_names_the_job_of_each_process_and_the_idle_holder(
    cluster: SlurmCluster, fake_nvml: MakeFake, tmp_path: Path
) -> None:
    expected = truth(cluster)
    idle, third = owner(cluster.job("idle")), owner(cluster.job("third"))
    fake = fake_nvml(running_on(cluster))
    with exporting(options(cluster), environment(cluster, fake), tmp_path) as url:
        becomes(expected, lambda: shown_holders(url))
        until(lambda: total(url, "gpu_workload_gpu_seconds_total", idle, state="allocated_idle") > 1)
        becomes(jobs_of(cluster), lambda: shown_jobs(url))
        shares = series(url, "gpu_allocation_ratio")
        memory = total(url, "gpu_workload_memory_bytes", third)
        busy = total(url, "gpu_workload_gpu_seconds_total", idle, state="computing")
        unattributed = series(url, "gpu_exporter_unattributed_processes")

    by_gpu: dict[str, float] = defaultdict(float)
    for share in shares:
        by_gpu[share.labels["gpu"]] += share.value
    assert by_gpu == pytest.approx(dict.fromkeys(by_gpu, 1.0))
    place = next(
        place for place, (_, (job, _)) in enumerate(sorted(cluster.allocated_to().items())) if job == third.slurm_job
    )
    assert memory == (place + 1) * GIB
    assert busy == 0
    assert [each.value for each in unattributed] == [0]


def test_job_that_ends_holds_nothing_any_more(cluster: SlurmCluster) -> None:
    job = cluster.job("direct")
    with observing(cluster) as observer:
        until(lambda: owner(job) in observer.observe().info)
        cluster.run("scancel", job)
        until(
            lambda: owner(job) not in {each for allocated in observer.observe().holders.values() for each in allocated}
        )
        ownership = observer.observe()

    assert owner(job) not in ownership.cgroups


def test_attribution_goes_on_without_slurmctld(cluster: SlurmCluster, fake_nvml: MakeFake, tmp_path: Path) -> None:
    """Last: it takes slurmctld away for good."""
    train = cluster.job("train")
    expected = truth(cluster)
    fake = fake_nvml(running_on(cluster))
    with observing(cluster) as before, exporting(options(cluster), environment(cluster, fake), tmp_path) as url:
        becomes(expected, lambda: holders(before.observe()))
        becomes(expected, lambda: shown_holders(url))
        await_shares(cluster, before, url)
        known = before.observe()
        cluster.stop_daemon("slurmctld", signal.SIGKILL)
        again = before.observe()
        with observing(cluster) as after:
            becomes(jobs_of(cluster), lambda: of_jobs(after.observe()), 30)
            until(lambda: not all(health.success for health in after.observe().health))
            fresh = after.observe()
        shown = shown_holders(url)
        # Of those that run: an owner of the first cycle may have fewer labels.
        before_energy = {each: joules for each, joules in energies(url).items() if each in set().union(*shown.values())}
        until(lambda: all(energies(url).get(each, 0.0) > joules for each, joules in before_energy.items()))

    assert shown == expected
    assert (again.holders, again.processes) == (known.holders, known.processes)
    assert all(health.success for health in again.health)
    assert of_jobs(fresh) == of_jobs(known)
    assert jobs_by_gpu(fresh) == jobs_by_gpu(known)
    assert {health.source for health in fresh.health if not health.success} == {"slurm_scontrol"}
    assert next(each for each in fresh.info if each.slurm_job == train).user == "games"
