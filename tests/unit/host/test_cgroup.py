"""What a cgroup used and may use, on trees of files laid out as version 2, version 1 and hybrid."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.host import cgroup
from exporter.host.cgroup import Cgroups, Hierarchy, Limits
from exporter.host.model import HostUsage

PSI = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\n"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def v2(tmp_path: Path) -> Path:
    return tree(
        tmp_path,
        {
            "cgroup.controllers": "cpu io memory",
            "pods/cpu.max": "max 100000",
            "pods/cpuset.cpus.effective": "0-15",
            "pods/memory.max": "1000",
            "pods/a/cpu.max": "400000 100000",
            "pods/a/cpuset.cpus.effective": "0-7,12",
            "pods/a/memory.max": "max",
            "pods/a/cpu.stat": "usage_usec 2500000\nuser_usec 1\n",
            "pods/a/memory.current": "900",
            "pods/a/memory.stat": "anon 1\ninactive_file 300\n",
            "pods/a/io.stat": "254:0 rbytes=4096 wbytes=1 rios=1\n7:0 rbytes=4 wbytes=0\n",
            "pods/a/cpu.pressure": PSI,
            "pods/a/io.pressure": PSI,
        },
    )


@pytest.fixture
def hybrid(tmp_path: Path) -> Path:
    return tree(
        tmp_path,
        {
            "unified/cgroup.controllers": "",
            "unified/slurm/job_1/io.pressure": PSI,
            "cpu/slurm/cpu.cfs_quota_us": "-1",
            "cpu/slurm/job_1/cpu.cfs_quota_us": "150000",
            "cpu/slurm/job_1/cpu.cfs_period_us": "100000",
            "cpuacct/slurm/job_1/cpuacct.usage": "7000000000",
            "cpuset/slurm/job_1/cpuset.cpus": "1-8",
            "memory/slurm/job_1/memory.usage_in_bytes": "5000",
            "memory/slurm/job_1/memory.stat": "total_inactive_file 1000\n",
            "memory/slurm/job_1/memory.limit_in_bytes": "9223372036854771712",
            "memory/slurm/memory.limit_in_bytes": "80000",
            "blkio/slurm/job_1/blkio.throttle.io_service_bytes_recursive": "8:0 Read 4096\n8:0 Write 7\nTotal 4103\n",
        },
    )


def test_v2_usage(v2: Path) -> None:
    assert Cgroups(v2).usage("/pods/a", Limits(4.0, 1000)) == HostUsage(
        cpu_seconds=2.5,
        cpu_limit_cores=4.0,
        memory_limit_bytes=1000,
        read_bytes=4100,
        written_bytes=1,
        pressure_seconds={"cpu": 1.5, "io": 1.5},
    )


def test_v2_limits_are_the_tightest_on_the_way_up(v2: Path) -> None:
    assert Cgroups(v2, 16).limits("/pods/a") == Limits(4.0, 1000)


def test_cpu_set_is_a_limit_only_where_it_leaves_cpus_out(v2: Path) -> None:
    (v2 / "pods/a/cpu.max").write_text("max 100000")

    assert Cgroups(v2, 16).limits("/pods/a").cpu_cores == 9
    assert Cgroups(v2, 16).limits("/pods").cpu_cores is None


def test_resident_leaves_out_the_cache_that_is_given_back_at_once(v2: Path) -> None:
    assert Cgroups(v2).resident_bytes("/pods/a") == 600


def test_hybrid_usage_has_pressure_from_the_unified_tree(hybrid: Path) -> None:
    assert cgroup.hierarchy(hybrid) is Hierarchy.HYBRID
    assert Cgroups(hybrid).usage("/slurm/job_1", Limits()) == HostUsage(
        cpu_seconds=7.0, read_bytes=4096, written_bytes=7, pressure_seconds={"io": 1.5}
    )
    assert Cgroups(hybrid).resident_bytes("/slurm/job_1") == 4000
    assert Cgroups(hybrid, 64).limits("/slurm/job_1") == Limits(1.5, 80000)


def test_hierarchy_is_told_by_its_files(v2: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert cgroup.hierarchy(v2) is Hierarchy.V2
    assert cgroup.hierarchy(tmp_path_factory.mktemp("empty")) is Hierarchy.V1


@pytest.mark.parametrize("path", ["", "/", "/../other", "/pods/../../etc"])
def test_path_outside_the_mount_tells_nothing(v2: Path, path: str) -> None:
    assert Cgroups(v2).usage(path, Limits()) == HostUsage()
    assert Cgroups(v2, 16).limits(path) == Limits()
    assert Cgroups(v2).resident_bytes(path) is None


def test_vanished_cgroup_tells_nothing(v2: Path) -> None:
    assert Cgroups(v2).usage("/pods/gone", Limits()) == HostUsage()


@given(st.sets(st.integers(0, 300), min_size=1))
def test_cpu_list_counts_what_it_names(cpus: set[int]) -> None:
    assert cgroup.parse_cpu_list(",".join(map(str, sorted(cpus)))) == len(cpus)


@pytest.mark.parametrize(("text", "count"), [("0-3,8\n", 5), ("0\n", 1), ("\n", None), ("3-1", None), ("a", None)])
def test_cpu_list_ranges(text: str, count: int | None) -> None:
    assert cgroup.parse_cpu_list(text) == count


@given(st.text())
def test_parsers_never_raise(text: str) -> None:
    cgroup.parse_cpu_list(text)
    cgroup.parse_cpu_max(text)
    cgroup.parse_limit(text)
    cgroup.parse_flat(text)
    cgroup.parse_io_stat(text)
    cgroup.parse_blkio(text)


@given(st.integers(1, 10**9), st.integers(1, 10**6))
def test_cpu_max_is_quota_over_period(quota: int, period: int) -> None:
    assert cgroup.parse_cpu_max(f"{quota} {period}\n") == quota / period


def test_no_limit_is_none() -> None:
    assert cgroup.parse_cpu_max("max 100000") is None
    assert cgroup.parse_limit("max\n") is None
    assert cgroup.parse_limit("9223372036854771712") is None
