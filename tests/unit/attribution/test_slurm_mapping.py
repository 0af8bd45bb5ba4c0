"""The prolog's per-GPU job files, in the layouts that dcgm-exporter and jobstats sites have."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporter.attribution.devices import DeviceName
from exporter.attribution.slurm import prolog_files
from exporter.attribution.slurm.job import Job
from exporter.attribution.slurm.prolog_files import MappedDevice, MappingFolder, jobs, named, read
from exporter.attribution.slurm.source import _mapped_device
from exporter.core.clock import UnixTime
from tests.attribution_kit.slurm_node import Node
from tests.growth import grown

UUID = "GPU-00000000-0000-0000-0000-000000000001"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("0", MappedDevice(0)),
        ("12", MappedDevice(12)),
        ("3.1", MappedDevice(3, 1)),
        (UUID, MappedDevice(device=DeviceName(uuid=UUID))),
        (".lock", None),
        ("3.1.2", None),
        ("3.new", None),
        ("GPU-nonsense", None),
    ],
)
def test_file_names(name: str, expected: MappedDevice | None) -> None:
    assert named(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("1", DeviceName(minor=6)),
        ("1.3", DeviceName(minor=6, gpu_instance=3)),
        (UUID, DeviceName(uuid=UUID)),
        ("2", DeviceName(claimed="gres/gpu:2")),
    ],
)
def test_device_of_a_file_name_is_that_of_gres_conf(name: str, expected: DeviceName) -> None:
    mapped = named(name)

    assert mapped
    assert _mapped_device((DeviceName(minor=4), DeviceName(minor=6)), mapped) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("123\n", ("123",)),
        ("123 1001\n", ("123",)),
        ("123\n124\n123\n", ("123", "124")),
        ("", ()),
        ("\n \n", ()),
        ("job-a\n", ()),
        ("123.batch\n", ("123",)),
    ],
)
def test_job_ids(text: str, expected: tuple[str, ...]) -> None:
    assert jobs(text) == expected


def test_directory_tells_devices_by_job(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("1\n")
    (tmp_path / "1").write_text("1\n2\n")
    (tmp_path / "2").write_text("")
    (tmp_path / ".lock").write_text("9\n")
    (tmp_path / "7").mkdir()

    assert read(tmp_path).devices == {"1": (MappedDevice(0), MappedDevice(1)), "2": (MappedDevice(1),)}


def test_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="gone"):
        read(tmp_path / "gone")


def test_folder_follows_every_kind_of_change(tmp_path: Path) -> None:
    folder = MappingFolder(tmp_path)
    file, new = tmp_path / "0", tmp_path / ".new"
    told = [folder.read()]
    for text in ("1\n", "1\n2\n"):
        file.write_text(text)
        told.append(folder.read())
    new.write_text("3\n4\n")
    new.replace(file)
    told.append(folder.read())
    file.unlink()
    told.append(folder.read())

    assert [sorted(each.devices) for each in told] == [[], ["1"], ["1", "2"], ["3", "4"], []]


@example([frozenset("1"), frozenset(), frozenset("1"), frozenset("12")])
@given(st.lists(st.frozensets(st.sampled_from("1234567890"), max_size=4), min_size=1, max_size=8))
def test_job_has_an_end_only_while_its_file_is_gone(listed: list[frozenset[str]]) -> None:
    """A requeued job gets its file back under the same id."""
    with TemporaryDirectory() as path:
        folder, before = MappingFolder(Path(path)), frozenset[str]()
        for jobs_now in listed:
            for job in before - jobs_now:
                Path(path, f"job_{job}").unlink()
            for job in jobs_now - before:
                Path(path, f"job_{job}").write_text(f"SLURM_JOB_ID={job}\nSLURM_JOB_GPUS=0\n")
            ended = folder.read().ended.keys()

            assert not ended & jobs_now
            assert before - jobs_now <= ended
            before = jobs_now


def test_folder_keeps_the_last_ends_alone(tmp_path: Path) -> None:
    folder = MappingFolder(tmp_path)

    def next_round(number: int) -> None:
        file = tmp_path / f"job_{number + 1}"
        file.write_text(f"SLURM_JOB_ID={number + 1}\nSLURM_JOB_GPUS=0\n")
        folder.read()
        file.unlink()
        folder.read()

    assert grown(folder, next_round) == {}


def test_folder_is_not_read_again_while_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "0").write_text("1\n")
    folder = MappingFolder(tmp_path)
    before = folder.read()
    monkeypatch.delattr(prolog_files, "read_regular")

    assert folder.read() is before


def test_pipes_links_and_endless_files_are_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "map"
    folder.mkdir()
    (tmp_path / "secret").write_text("9\n")
    (folder / "0").write_text("1\n")
    os.mkfifo(folder / "1")
    (folder / "2").symlink_to("/dev/zero")
    (folder / "3").symlink_to("3")
    (folder / "4").symlink_to(tmp_path / "secret")
    (folder / "5").write_text("9" * 5000)

    assert MappingFolder(folder).read().devices == {"1": (MappedDevice(0),)}


def test_files_that_map_nothing_are_not_kept(tmp_path: Path) -> None:
    for number in range(3000):
        (tmp_path / f"x{number}").touch()
    (tmp_path / "0").write_text("1\n")

    folder = MappingFolder(tmp_path)

    assert folder.read().devices == {"1": (MappedDevice(0),)}
    assert len(folder._signatures or ()) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file somebody else's")
def test_file_of_another_user_names_no_job(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("1\n")
    os.chown(tmp_path / "0", 12345, 12345)

    assert read(tmp_path).devices == {}


def _of_another(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        (folder / name).write_text("9\n")
        os.chown(folder / name, 12345, 12345)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file somebody else's")
def test_files_of_another_user_take_nobodys_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prolog_files, "_MAX_FILES", 3)
    _of_another(tmp_path, (f"job_{number}" for number in range(50)))
    (tmp_path / "0").write_text("1\n")
    _of_another(tmp_path, (f"GPU-00000000-0000-0000-0000-{number:012}" for number in range(50)))

    assert MappingFolder(tmp_path).read().devices == {"1": (MappedDevice(0),)}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file somebody else's")
def test_folder_that_others_fill_is_said_to_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prolog_files, "_MAX_OF_OTHERS", 20)
    folder = MappingFolder(tmp_path)
    (tmp_path / "0").write_text("1\n")
    folder.read()
    _of_another(tmp_path, (f"job_{number}" for number in range(21)))

    with pytest.raises(OSError, match="more than 20 files that are not root's"):
        folder.read()


@given(st.text())
def test_any_text_is_survived(text: str) -> None:
    assert all(job.isdecimal() for job in jobs(text))
    named(text)


class _Controller(dict[str, Job]):
    """Notes which jobs it is asked about."""

    def __init__(self) -> None:
        super().__init__({"1": Job("1")})
        self.asked: list[str] = []

    def get(self, key: str, default: object = None) -> None:  # type: ignore[override]
        del default
        self.asked.append(key)


def _told(job: str, gpus: str, *more: str) -> str:
    facts = ("USER=ada", "PARTITION=gpu", "NAME=train", "RESTART_COUNT=0", "START_TIME=1000", "END_TIME=4600", *more)
    return f"SLURM_JOB_ID={job}\nSLURM_JOB_GPUS={gpus}\n" + "".join(f"SLURM_JOB_{fact}\n" for fact in facts)


def test_slurmctld_is_not_asked_about_a_job_of_which_the_prolog_told_all(tmp_path: Path) -> None:
    """Once per node and job adds up: a job of 1,000 nodes would ask it 1,000 times at the same moment."""
    controller = _Controller()
    node = Node(tmp_path, controller=controller)
    (node.root / "gres.conf").write_text("")
    (node.mapping / "job_7").write_text(_told("7", "0-3", "ACCOUNT=nlp"))
    (node.mapping / "job_8").write_text(_told("8", "4").replace("SLURM_JOB_START_TIME", "OLD"))
    for name in ("job_9", "job_10"):
        (node.mapping / name).write_text(_told(name[4:], "5"))
    (node.mapping / "job_11").write_text(_told("11", "5,6"))  # one of its two GPUs is another job's as well
    node.cgroup("7", 70)
    node.read()

    assert sorted(set(controller.asked)) == ["10", "11", "8", "9"]
    known = node.slurm.job("7")
    assert known
    assert (known.user, known.account, known.restarts) == ("ada", "nlp", 0)


def test_labels_of_a_job_stay_the_prologs_once_slurmctld_answers(tmp_path: Path) -> None:
    """`scontrol update` changes a job that runs. What the prolog leaves open comes from slurmctld."""
    node = Node(tmp_path, controller={"7": Job("7", "bob", "vision", "debug"), "8": Job("8", "bob", "vision", "debug")})
    (node.mapping / "job_7").write_text(_told("7", "0", "ACCOUNT=nlp").replace("SLURM_JOB_START_TIME", "OLD"))
    (node.mapping / "job_8").write_text("SLURM_JOB_ID=8\nSLURM_JOB_GPUS=1\nSLURM_JOB_USER=ada\n")
    node.read()

    known = [node.slurm.job(job) for job in ("7", "8")]
    assert [each and (each.user, each.account, each.partition) for each in known] == [
        ("ada", "nlp", "gpu"),
        ("ada", "vision", "debug"),
    ]


@pytest.mark.parametrize(("written", "begin"), [(1000.4, 1000.4), (1007.0, 1001.0), (998.0, 1000.0)])
def test_start_of_a_job_is_the_prologs_moment_within_slurms_second(
    tmp_path: Path, written: float, begin: float
) -> None:
    """Slurm cuts StartTime to whole seconds. A prolog may run later, and a clock may be wrong."""
    node = Node(tmp_path, controller={"7": Job("7", "ada", start_time=UnixTime(1000.0))})
    for job, text in (("7", "SLURM_JOB_ID=7\nSLURM_JOB_GPUS=0\n"), ("8", _told("8", "1"))):
        (node.mapping / f"job_{job}").write_text(text)
        os.utime(node.mapping / f"job_{job}", (written, written))
    node.read()

    found = [node.slurm.job(job) for job in ("7", "8")]
    assert [each and each.start_time for each in found] == [pytest.approx(begin)] * 2


def test_start_of_a_job_is_the_time_of_its_file_until_slurmctld_answers(tmp_path: Path) -> None:
    """Slurm 22.05 gives its prolog no start."""
    node = Node(tmp_path, controller={})
    (node.mapping / "job_7").write_text("SLURM_JOB_ID=7\nSLURM_JOB_GPUS=0\n")
    os.utime(node.mapping / "job_7", (1000.4, 1000.4))
    node.read()

    known = node.slurm.job("7")
    assert known
    assert known.start_time == pytest.approx(1000.4)
