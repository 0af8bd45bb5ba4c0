"""The Slurm kit and a node's state on a real Slurm, over a fake driver: health check, targets for Prometheus."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.attribution.slurm.reconciliation import Scontrol
from tests.attribution_kit.exporter import exporting, series
from tests.attribution_kit.slurm_cluster import LACKING, TRACKING
from tests.attribution_kit.slurm_kit import KIT, ROOT, Kit
from tests.stack import poll

# Two clusters on one machine would see each other's jobs: those tests take turns.
pytestmark = [pytest.mark.xdist_group("slurm"), pytest.mark.skipif(bool(LACKING), reason=LACKING)]


@pytest.fixture(scope="module")
def kit() -> Iterator[Kit]:
    with Kit(TRACKING[0]) as started:
        yield started


def check(kit: Kit) -> subprocess.CompletedProcess[str]:
    """The health check, as slurmd runs it."""
    environment = {**os.environ, "SLURMD_NODENAME": kit.node, "GPU_EXPORTER_CHECK_SETTINGS": f"{kit.work}/etc/check"}
    return subprocess.run(
        [KIT / "healthcheck"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_node_is_drained_when_a_gpu_is_lost_and_resumed_after_good_checks(kit: Kit) -> None:
    kit.scenario.set({"gpu3.lost": 1})
    drained = poll("the drain", lambda: state if "DRAIN" in (state := kit.state()) else None, 60)
    kit.scenario.remove("gpu3.lost")
    assert "Reason=7 of 8 GPUs [gpu-exporter] [root@" in drained

    done = check(kit)
    assert done.stdout.startswith("GPU OK"), done.stdout
    poll("the resume", lambda: (check(kit).returncode == 0 and "DRAIN" not in kit.state()) or None, 60)


def test_node_that_an_administrator_drained_stays_drained(kit: Kit) -> None:
    kit.run("scontrol", "update", f"NodeName={kit.node}", "State=DRAIN", "Reason=ticket 42")
    done = check(kit)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("GPU OK - 8 GPUs reachable (8 x H100 80GB HBM3)")
    assert "Reason=ticket 42" in kit.state()
    kit.run("scontrol", "update", f"NodeName={kit.node}", "State=RESUME")


def test_node_that_an_administrator_set_to_fail_keeps_state_and_reason(kit: Kit) -> None:
    kit.run("scontrol", "update", f"NodeName={kit.node}", "State=FAIL", "Reason=broken PSU")
    kit.scenario.set({"gpu3.lost": 1})
    done = check(kit)
    kit.scenario.remove("gpu3.lost")

    assert done.returncode == 2, done.stdout
    assert "FAIL" in kit.state()
    assert "Reason=broken PSU" in kit.state()
    kit.run("scontrol", "update", f"NodeName={kit.node}", "State=RESUME")


def test_node_without_a_job_has_no_step_although_scontrol_says_that_it_failed(kit: Kit) -> None:
    assert poll("the end of all steps", lambda: not Scontrol(str(kit.scontrol)).steps().jobs or None, 60)


@pytest.mark.parametrize("conf", ["none", "others"])
def test_machine_with_slurms_packages_that_is_in_no_cluster_has_no_failing_source(
    kit: Kit, conf: str, tmp_path: Path
) -> None:
    """`none`: the packages alone. `others`: also the cluster's files, which do not name this machine."""
    (tmp_path / "cgroup").mkdir()  # this machine's own has the kit's jobs
    scontrol, asked = tmp_path / "scontrol", tmp_path / "asked"
    at = "SLURM_CONF=/nonexistent" if conf == "none" else f"SLURM_CONF={kit.work}/etc/slurm.conf"
    scontrol.write_text(
        f"#!/bin/sh\necho >> {asked}\nexport {at} LD_LIBRARY_PATH={kit.environment['LD_LIBRARY_PATH']}\n"
        f'exec {ROOT}/.cache/slurm/unpacked/usr/bin/scontrol "$@"\n'
    )
    scontrol.chmod(0o755)
    if conf == "others":
        (tmp_path / "gres.conf").write_text("NodeName=other Name=gpu File=/dev/nvidia[0-7]\n")
    options = {
        "path.cgroupfs": tmp_path / "cgroup",
        "attribution.slurm.mapping-dir": tmp_path / "jobs",
        "attribution.slurm.gres-conf": tmp_path / "gres.conf",
        "slurm.scontrol": scontrol,
        "state.dir": "",
    }
    user = subprocess.Popen(["sleep", "600"])
    kit.scenario.set({"gpu0.process.0": f"{user.pid} C 1073741824 40 10 0 0"})
    try:
        with exporting(options, {**os.environ, **kit.driver, "SLURMD_NODENAME": "stranger"}, tmp_path) as url:
            poll("a program on a GPU", lambda: series(url, "gpu_process_memory_bytes"), 60)
            if conf == "others":
                poll("the question to slurmctld", lambda: asked.exists() or None, 60)
            cycles = _value(url, "gpu_exporter_sampling_cycles_total")
            poll("ten cycles", lambda: _value(url, "gpu_exporter_sampling_cycles_total") >= cycles + 10 or None, 60)
            shown = [each for name in _SOURCES for each in series(url, name) if each.labels["source"] != _LATE]
    finally:
        kit.scenario.remove("gpu0.process.0")
        user.kill()
        user.wait()

    assert [each for each in shown if not each.value] == []


_LATE = "host"
"""The machine's own processes, which are read late on a busy machine."""
_SOURCES = ("gpu_exporter_attribution_success", "gpu_exporter_node_source_success")
"""What GpuSourceFailing looks at."""


def _value(url: str, name: str) -> float:
    return max((each.value for each in series(url, name)), default=0.0)


def test_targets_for_prometheus_follow_the_nodes(kit: Kit) -> None:
    file = kit.work / "targets.json"
    command = [sys.executable, str(KIT / "targets.py"), str(file), "--scontrol", str(kit.scontrol)]
    subprocess.run(command, check=True, timeout=60)

    (entry,) = json.loads(file.read_text())
    assert entry["targets"] == ["127.0.0.1:9836"]
    assert entry["labels"] == {"node": kit.node, "slurm_partition": "gpu"}


def test_nodes_of_a_partition_for_others_are_targets_too(kit: Kit) -> None:
    kit.run("scontrol", "update", "PartitionName=gpu", "AllowGroups=root")
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    shown = subprocess.run(
        [*nobody, str(kit.scontrol), "-o", "show", "nodes"], capture_output=True, text=True, check=True
    )
    folder = kit.work / "nobodys"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    command = [sys.executable, str(KIT / "targets.py"), f"{folder}/targets.json", "--scontrol", str(kit.scontrol)]
    done = subprocess.run([*nobody, *command], capture_output=True, text=True, timeout=60, check=False)
    kit.run("scontrol", "update", "PartitionName=gpu", "AllowGroups=ALL")

    assert shown.stdout == "No nodes in the system\n"
    assert (done.returncode, done.stderr) == (0, "")
    assert len(json.loads((folder / "targets.json").read_text())) == 1


def test_epilog_s_check_looks_at_the_gpus_of_the_job_and_at_no_others(kit: Kit) -> None:
    """Slurm's first GPU is the driver's fifth here, by gres.conf: what runs on the driver's first is another job's."""
    settings = dict(line.split("=", 1) for line in (kit.work / "etc/check").read_text().splitlines())
    settings |= {"GPU_EXPORTER_ATTRIBUTION_SLURM_GRES_CONF": f"{kit.work}/etc/gres.conf", "SLURMD_NODENAME": kit.node}
    del settings["GPU_EXPORTER"]
    environment = {**os.environ, **settings, "SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0"}
    command = [kit.work / "gpu-exporter", "check", "--check.stage", "epilog", "--check.deadline", "8s"]
    command += ["--check.ignore", "leaked"]  # memory that the fake driver says is used
    found = {}
    for gpu in (0, 4):
        kit.scenario.set({f"gpu{gpu}.process.0": f"{os.getpid()} C 1073741824 40 10 0 0"})
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        kit.scenario.remove(f"gpu{gpu}.process.0")
        found[gpu] = done.returncode, "GPU 4" in done.stdout and "left on it" in done.stdout

    assert found == {0: (0, False), 4: (2, True)}
