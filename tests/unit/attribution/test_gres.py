"""From a GRES index to the device, through gres.conf in its own order."""
# ruff: noqa: E501 - a table is read in rows

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.devices import DeviceName
from exporter.attribution.slurm import gres
from exporter.attribution.slurm.local_view import LocalFiles, SlurmSite
from exporter.faults.expected import slurm_gpus

HERE = frozenset({"n1"})
MINORS = "config 1\nmonitor 2\ngpu1/gi3/access 30\ngpu1/gi3/ci0/access 31\ngpu0/gi1/access 12\n"


def by_minor(file: str) -> int | None:
    return {"/dev/odd": 9}.get(file)


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("Name=gpu File=/dev/nvidia[0-1]", (("/dev/nvidia0",), ("/dev/nvidia1",))),
        ("Name=gpu File=/dev/nvidia3,/dev/nvidia1", (("/dev/nvidia3",), ("/dev/nvidia1",))),
        ("NodeName=n[1-4] name=GPU TYPE=a100 file=/dev/nvidia2 # comment", (("/dev/nvidia2",),)),
        ("NodeName=other Name=gpu File=/dev/nvidia0\nNodeName=n1 Name=gpu File=/dev/nvidia5", (("/dev/nvidia5",),)),
        ("Name=gpu Files=/dev/nvidia[4-5]", (("/dev/nvidia4",), ("/dev/nvidia5",))),
        ("# a word \\\nName=gpu File=/dev/nvidia4 # of \\\nName=gpu File=/dev/nvidia5", (("/dev/nvidia4",), ("/dev/nvidia5",))),
        ("NodeName=n9,\\ \nn[1-2] Name=gpu File=/dev/nvidia4,\\\r\n/dev/nvidia5\r\n", (("/dev/nvidia4",), ("/dev/nvidia5",))),
        ("Name=gpu Type=a\\#b File=/dev/nvidia4 \\", (("/dev/nvidia4",),)),
        ("Name=gpu \\\n File=/dev/nvidia4", (("/dev/nvidia4",),)),
        ("Name=gpu MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap12", (("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap12"),)),
        ("Name=shard Count=8 File=/dev/nvidia0\nName=mps Count=100", ()),
        ('NodeName="n[1-4]" Name="gpu" File="/dev/nvidia[6-7]" # in quotes', (("/dev/nvidia6",), ("/dev/nvidia7",))),
        ("NodeName=r[1-2]n[1-2],n[1-2] Name=gpu File=/dev/nvidia3", (("/dev/nvidia3",),)),
        ("NodeName=r[1-2]n[1-2] Name=gpu File=/dev/nvidia3", ()),
        ("AutoDetect=nvml", ()),
        ("# Name=gpu File=/dev/nvidia0", ()),
        ("", ()),
    ],
)  # fmt: skip
def test_files_by_index(text: str, files: tuple[tuple[str, ...], ...]) -> None:
    assert tuple(each for _, each in gres.gpu_files(text, HERE)) == files


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (("/dev/nvidia6",), DeviceName(minor=6)),
        (("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap30", "/dev/nvidia-caps/nvidia-cap31"), DeviceName(minor=1, gpu_instance=3, compute_instance=0)),
        (("/dev/nvidia-caps/nvidia-cap12",), DeviceName(minor=0, gpu_instance=1)),
        (("/dev/odd",), DeviceName(minor=9)),
        (("/dev/null",), None),
    ],
)  # fmt: skip
def test_device_of_an_index_is_the_most_exact_of_its_files(files: tuple[str, ...], expected: DeviceName | None) -> None:
    assert gres.device(files, gres.mig_minors(MINORS), by_minor) == expected


def test_configless_slurmd_goes_by_what_it_was_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no /etc/slurm: its files lie below /run/slurm/conf, once it has started. A file that is named is meant."""
    own, sent = tmp_path / "etc.conf", tmp_path / "run.conf"
    monkeypatch.setattr(gres, "DEFAULT", own)
    monkeypatch.setattr(gres, "CONFIGLESS", sent)
    before = gres.read(own, tmp_path, HERE)
    sent.write_text("Name=gpu File=/dev/nvidia[4-5]\n")
    configless = gres.read(own, tmp_path, HERE)
    named = gres.read(tmp_path / "named.conf", tmp_path, HERE)
    expected = slurm_gpus(own, HERE)
    own.write_text("Name=gpu File=/dev/nvidia7\n")

    assert (before, configless, named) == ((), (DeviceName(minor=4), DeviceName(minor=5)), ())
    assert expected == 2
    assert gres.read(own, tmp_path, HERE) == (DeviceName(minor=7),)


def test_files_that_gres_conf_includes_are_read(tmp_path: Path) -> None:
    """By a path of their own or beside the file that names them; in any encoding, and without end where in a ring."""
    conf = tmp_path / "gres.conf"
    conf.write_bytes(b"# \xe0 la carte\nName=gpu File=/dev/nvidia6\ninclude  nodes.conf # ours\nInclude gone.conf\n")
    (tmp_path / "nodes.conf").write_text(f"Name=gpu File=/dev/nvidia4\nInclude {tmp_path}/more.conf\n")
    (tmp_path / "more.conf").write_text("Name=gpu File=/dev/nvidia5\nInclude more.conf\n")

    assert gres.read(conf, tmp_path, HERE)[:3] == (DeviceName(minor=6), DeviceName(minor=4), DeviceName(minor=5))
    (tmp_path / "more.conf").write_text("Name=gpu File=/dev/nvidia5\n")
    assert gres.read(conf, tmp_path, HERE) == (DeviceName(minor=6), DeviceName(minor=4), DeviceName(minor=5))
    assert slurm_gpus(conf, HERE) == 3


@pytest.mark.parametrize(
    ("nodes", "minors"),
    [
        ("NodeName=n[1-4] CPUs=8 Gres=gpu:b:2,gpu:a:2,shard:8 # mixed\n", (0, 1, 2, 3)),
        ("nodename=n1 gres=gpu:a:2,gpu:B:no_consume:2\n", (2, 3, 0, 1)),
        ('NodeName=DEFAULT Gres="gpu:b:2,gpu:a:2"\nNodeName=n2 Gres=gpu:a:4\nNodeName=n1 CPUs=8\n', (0, 1, 2, 3)),
        ("NodeName=n1 Gres=gpu:4\n", (2, 0, 1, 3)),
        ("NodeName=n2 Gres=gpu:b:2,gpu:a:2\n", (2, 0, 1, 3)),
        ("NodeName=n1 Gres=gpu:b:4\n", (2, 0, 1, 3)),
    ],
)
def test_kinds_of_gpus_have_their_numbers_in_the_order_of_slurm_conf(
    tmp_path: Path, nodes: str, minors: tuple[int, ...]
) -> None:
    """A real slurmctld numbers so; of one kind, and where slurm.conf names no kinds, the order is that of gres.conf."""
    conf = tmp_path / "gres.conf"
    conf.write_text(
        "Name=gpu Type=a File=/dev/nvidia2\nName=gpu Type=b File=/dev/nvidia[0-1]\nName=gpu Type=a File=/dev/nvidia3\n"
    )
    without = gres.read(conf, tmp_path, HERE)
    (tmp_path / "nodes.conf").write_text(nodes)
    (tmp_path / "slurm.conf").write_text("ClusterName=x\nInclude nodes.conf\n")

    assert without == tuple(DeviceName(minor=minor) for minor in (2, 0, 1, 3))
    assert gres.read(conf, tmp_path, HERE) == tuple(DeviceName(minor=minor) for minor in minors)


def test_gpus_without_a_kind_are_numbered_after_those_of_slurm_conf(tmp_path: Path) -> None:
    conf = tmp_path / "gres.conf"
    conf.write_text("Name=gpu File=/dev/nvidia0\nName=gpu Type=a File=/dev/nvidia1\n")
    (tmp_path / "slurm.conf").write_text("NodeName=n1 Gres=gpu:a:1,gpu:1\n")

    assert gres.read(conf, tmp_path, HERE) == (DeviceName(minor=1), DeviceName(minor=0))


@pytest.mark.parametrize(
    ("given", "kinds"),
    [
        ("gpu:3090:4,gpu:4090:2", ("3090", "4090")),
        ("gpu:4,gpu:no_consume:2,shard:a:4", ()),
        ("gpu:1g.10gb:4(S:0-1),gpu:h100,mps:100,gpu", ("1g.10gb", "h100")),
    ],
)
def test_kinds_that_slurm_conf_gives_a_node(given: str, kinds: tuple[str, ...]) -> None:
    assert gres.gpu_kinds(f"NodeName=n1 Gres={given}\n", HERE) == kinds


@pytest.mark.parametrize(
    ("detects", "detector"),
    [
        ("AutoDetect=nvml", "nvml"),
        ("AutoDetect=Full\nAutoDetect=nvidia", "nvidia"),
        ("AutoDetect=nvml\nNodeName=n[1-2] AutoDetect=off", ""),
        ("AutoDetect=off\nNodeName=n[1-2] AutoDetect=NVML Name=gpu File=/dev/nvidia0", "nvml"),
        ("NodeName=n2 AutoDetect=nvml Name=gpu File=/dev/nvidia0", ""),
        ("Name=gpu AutoDetect=nvml File=/dev/nvidia0", ""),
        ("AutoDetect=rsmi", ""),
    ],
)
def test_what_slurmd_detects_gpus_with(detects: str, detector: str) -> None:
    assert gres.detection(detects, HERE) == detector


@pytest.mark.parametrize(
    ("detects", "listed", "devices"),
    [
        ("nvml", "File=/dev/nvidia[3,1,2]", {index: DeviceName(driver_index=index) for index in range(4)}),
        ("nvidia", "File=/dev/nvidia[3,10,2]", {0: DeviceName(minor=2), 1: DeviceName(minor=3), 2: DeviceName(minor=10), 3: None}),
        ("nvidia", "Type=h100", {0: DeviceName(minor=4), 1: DeviceName(minor=7), 2: DeviceName(minor=12), 3: None}),
        ("off", "File=/dev/nvidia[3,1,2]", {0: DeviceName(minor=3), 3: None}),
    ],
)  # fmt: skip
def test_detected_gpus_have_the_order_in_which_slurmd_sorts_them(
    tmp_path: Path, detects: str, listed: str, devices: dict[int, DeviceName | None]
) -> None:
    """Files and kinds in gres.conf check what is found; NVML keeps its own order, without it the files' counts."""
    (tmp_path / "slurm.conf").write_text("NodeName=n1 Gres=gpu:h100:2,gpu:a100:2\n")
    (tmp_path / "gres.conf").write_text(f"AutoDetect={detects}\nName=gpu {listed}\n")
    for bus, minor in enumerate((12, 4, 7)):
        gpu = tmp_path / f"driver/nvidia/gpus/0000:{bus:02x}:00.0"
        gpu.mkdir(parents=True)
        (gpu / "information").write_text(f"Model: \t\t NVIDIA H100\nDevice Minor: \t {minor}\nGPU Excluded:\t No\n")
    found = gres.read(tmp_path / "gres.conf", tmp_path, HERE)

    assert {index: gres.by_index(found, index) for index in devices} == devices


def test_gres_conf_that_may_not_be_read_leaves_it_open_which_gpu_a_number_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It may list GPUs in any order; that is told once."""
    closed = tmp_path / "gres.conf"

    def refused(_: Path) -> str:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(gres, "conf_text", refused)
    files = LocalFiles(SlurmSite(gres_conf=closed, procfs=tmp_path, cgroupfs=tmp_path), lambda *_: 0, str)
    found = [files.read(frozenset(), lambda _: None).devices for _ in range(2)]

    assert [gres.by_index(each, 0) for each in found] == [None, None]
    assert [record.getMessage() for record in caplog.records] == [
        f"{closed}: may not be read: which GPUs Slurm's numbers mean is not known"
    ]


def test_folder_that_may_not_be_searched_is_no_missing_gres_conf(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "stat", refused)

    assert gres.effective_gres_conf(gres.DEFAULT) == gres.DEFAULT


def test_index_is_the_drivers_only_where_slurm_detects_the_gpus() -> None:
    listed = (DeviceName(minor=5), None)

    assert gres.by_index((), 3) == DeviceName(driver_index=3)
    assert gres.by_index(listed, 0) == DeviceName(minor=5)
    assert gres.by_index(listed, 1) is None
    assert gres.by_index(listed, 2) is None


def test_missing_files_are_no_devices(tmp_path: Path) -> None:
    assert gres.read(tmp_path / "gres.conf", tmp_path, HERE) == ()


def test_ordinary_file_is_no_device(tmp_path: Path) -> None:
    (tmp_path / "gpu0").write_text("")

    assert gres.character_minor(str(tmp_path / "gpu0")) is None
    assert gres.character_minor("/dev/null") is None


@given(st.text())
def test_any_text_is_survived(text: str) -> None:
    gres.gpu_files(text, HERE)
    gres.gpu_kinds(text, HERE)
    gres.mig_minors(text)
