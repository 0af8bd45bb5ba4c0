"""From a GRES index to the device, through gres.conf in its own order."""
# ruff: noqa: E501 - a table is read in rows

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.devices import DeviceName
from exporter.attribution.slurm import gres
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
    assert gres.gpu_files(text, HERE) == files


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
    gres.mig_minors(text)
