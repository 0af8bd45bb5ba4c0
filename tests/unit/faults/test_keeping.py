"""Faults survive a restart, whatever became of their file; what others may write is not believed."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from exporter.config.load import load
from exporter.config.option import ConfigError
from exporter.faults import acknowledgements, state_file
from exporter.faults.expected import in_maintenance, slurm_gpus
from exporter.faults.model import Acknowledgement, Fault, FaultKind, FaultState, GpuRecord, ObservedGpu, RepairAction
from exporter.faults.state_file import Saver, StateError
from exporter.faults.watch import NAME, FaultTracker, FaultWatchConfig
from exporter.tools.check import acknowledge

FAULT = Fault("GPU-0", 0, FaultKind.XID, "XID 119", RepairAction.RESET, 100.0)
BOOK = FaultState(
    "b", {"GPU-0": GpuRecord(0, "S", "0000:00:00.0", 18, 5e6)}, (FAULT,), frozenset({("GPU-0", "x")}), 7.0
)


def acknowledged(arguments: Sequence[str]) -> int:
    return acknowledge.run(load(acknowledge.AcknowledgeConfig, arguments, {}))


def test_book_is_read_as_it_was_written(tmp_path: Path) -> None:
    state_file.write_state(tmp_path / NAME, BOOK)

    assert state_file.read_state(tmp_path / NAME).state == BOOK
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_file_with_the_earlier_names_of_its_fields_is_read_whole(tmp_path: Path) -> None:
    known = {"index": 3, "serial": "S", "bus": "0000:00:00.0"}
    names = {"marked": 5.0, "low": 2, "cured": 7.0, "away": 9.0, "back": 11.0}
    content = {"version": 1, "boot": "b", "acknowledged_until": 0, "accepted": [], "faults": [], "switches": []}
    content |= {"switches_cured": 13.0, "devices": {"GPU-0": {**known, **names}}}
    (tmp_path / NAME).write_text(json.dumps(content))

    found = state_file.read_state(tmp_path / NAME)

    assert (found.cause, found.reason) == ("", "")
    gpu = found.state.devices["GPU-0"]
    assert (gpu.baseline_time, gpu.reset_observations, gpu.last_reset) == (5.0, 2, 7.0)
    assert (gpu.missing_since, gpu.returned_at) == (9.0, 11.0)
    assert found.state.switches_last_reset == 13.0


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"version": 2}',
        json.dumps({"version": 1, "devices": {"x": {"index": None}}, "faults": []}),
        '{"version": 1, "devices": {}, "faults": [{"uuid": "x", "index": Infinity}]}',
        pytest.param("[" * 100_000, id="deep"),
    ],
)
def test_file_that_cannot_be_used_says_so_and_nothing_fails(
    content: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / NAME).write_text(content)
    assert state_file.read_state(tmp_path / NAME).cause

    FaultTracker(FaultWatchConfig(tmp_path))

    assert "some known faults may be lost" in caplog.text
    assert [path.read_text() for path in tmp_path.glob(f"{NAME}.*")] == [content]


def test_file_without_an_end_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / NAME).open("wb") as file:
        file.truncate(1 << 30)

    assert state_file.read_state(tmp_path / NAME).cause == "large"


def test_link_in_place_of_the_new_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f".{NAME}.new").symlink_to(victim)

    state_file.write_state(tmp_path / NAME, BOOK)

    assert victim.read_text() == "precious"
    assert not (tmp_path / NAME).is_symlink()


def seen(xids: dict[int, float]) -> tuple[ObservedGpu, ...]:
    return (ObservedGpu("GPU-0", 0, "S", "0000:00:00.0", up=True, joules=5e6, uncorrected=0.0, links=18, xids=xids),)


def test_restarted_exporter_still_knows_the_fault(tmp_path: Path) -> None:
    first = FaultTracker(FaultWatchConfig(tmp_path, boot="b"))
    for seconds in (0.0, 10.0):
        first.observe(1000.0 + seconds, seconds, seen({119: 1000.0}), (), driver=True)
    first._saver.save_once()  # type: ignore[union-attr]

    second = FaultTracker(FaultWatchConfig(tmp_path, boot="b"))
    second.observe(2000.0, 0.0, seen({}), (), driver=True)

    assert [fault.evidence for fault in second.status.faults] == ["XID 119"]
    assert second.status.expected == {"history": 1}
    assert second.status.saved is None
    second._saver.save_once()  # type: ignore[union-attr]
    second.observe(2005.0, 5.0, seen({}), (), driver=True)
    assert second.status.saved is True


def test_faults_that_cannot_be_saved_show_and_the_log_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    saver = Saver(Path("/proc/nowhere/faults.json"))
    assert saver.success is None, "nothing has been written yet"
    for _ in range(3):
        saver.offer_state(BOOK, 0.0, urgent=True)
        saver.save_once()

    assert saver.success is False
    assert caplog.text.count("do not survive a restart") == 1


def test_marks_alone_are_saved_every_few_minutes(tmp_path: Path) -> None:
    written: list[FaultState] = []
    saver = Saver(tmp_path, lambda _, book: written.append(book))
    for second in range(0, 600, 5):
        saver.offer_state(BOOK, float(second), urgent=False)
        saver.save_once()

    assert len(written) == 2


def test_save_that_failed_is_tried_again_before_long(tmp_path: Path) -> None:
    tries: list[FaultState] = []

    def full(path: Path, book: FaultState) -> None:
        tries.append(book)
        if len(tries) < 3:
            raise StateError(f"{path}: No space left on device")

    saver = Saver(tmp_path, full)
    for second in range(0, 120, 5):
        saver.offer_state(BOOK, float(second), urgent=False)
        saver.save_once()

    assert len(tries) == 3
    assert saver.success


def test_missing_devices_of_an_earlier_life_are_expected(tmp_path: Path) -> None:
    state_file.write_state(tmp_path / NAME, FaultState("b", {"GPU-0": GpuRecord(0), "GPU-1": GpuRecord(1)}))
    watch = FaultTracker(FaultWatchConfig(tmp_path, boot="c", expected=lambda: {"option": 8, "slurm": None}))

    for second in range(0, 60, 5):
        watch.observe(5000.0 + second, float(second), seen({}), (), driver=True)

    assert watch.status.expected == {"option": 8, "history": 2}
    assert [(fault.uuid, fault.kind) for fault in watch.status.faults] == [("GPU-1", FaultKind.LOST)]


def test_acknowledgement_is_heard_and_survives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state_file.write_state(tmp_path / NAME, BOOK)
    assert acknowledged(["--state.dir", str(tmp_path)]) == 0
    assert "GPU 0  xid  XID 119" in capsys.readouterr().out

    assert (
        acknowledge.run(
            load(
                acknowledge.AcknowledgeConfig,
                ["--state.dir", str(tmp_path), "--gpu", "0", "--reason", "reseated", "--by", "ada"],
                {},
            )
        )
        == 0
    )

    (said,) = acknowledgements.read_acknowledgements(tmp_path).entries
    assert (said.gpu, said.by, said.why) == ("0", "ada", "reseated")
    watch = FaultTracker(FaultWatchConfig(tmp_path, boot="b"))
    watch.observe(said.time + 5, 0.0, seen({}), (), driver=True)
    assert watch.status.faults == ()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--gpu", "0"], "--reason: expected why"),
        (["--gpu", "0", "--reason", "x", "--fault", "nvlink"], "--fault: expected one of xid"),
    ],
)
def test_acknowledgement_that_is_not_whole_is_refused(arguments: list[str], complaint: str, tmp_path: Path) -> None:
    state_file.write_state(tmp_path / NAME, BOOK)

    with pytest.raises(ConfigError, match=complaint):
        acknowledged(["--state.dir", str(tmp_path), *arguments])


def test_acknowledgement_of_nothing_is_told(tmp_path: Path) -> None:
    state_file.write_state(tmp_path / NAME, BOOK)

    assert (
        acknowledge.run(
            load(acknowledge.AcknowledgeConfig, ["--state.dir", str(tmp_path), "--gpu", "5", "--reason", "x"], {})
        )
        == 1
    )


def test_file_others_may_write_is_not_believed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    acknowledge.append(tmp_path, Acknowledgement("0", "", "eve", "x", 5000.0))
    (tmp_path / acknowledgements.NAME).chmod(0o666)
    state_file.write_state(tmp_path / NAME, BOOK)
    watch = FaultTracker(FaultWatchConfig(tmp_path, boot="b"))

    with caplog.at_level(logging.WARNING):
        for second in (0.0, 5.0, 10.0):
            watch.observe(6000.0 + second, second, seen({}), (), driver=True)

    assert [fault.evidence for fault in watch.status.faults] == ["XID 119"]
    assert caplog.text.count("ignored") == 1


def test_lines_that_are_none_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / acknowledgements.NAME
    path.write_text('nonsense\n{"gpu": 1}\n[]\n{"time":1,"gpu":"0","fault":"xid","by":"a","why":"b"}\n')
    path.chmod(0o644)

    assert [said.gpu for said in acknowledgements.read_acknowledgements(tmp_path).entries] == ["0"]


GRES = "NodeName=n[1-4] Name=gpu Type=h100 File=/dev/nvidia[0-7]\n"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (GRES, 8),
        (GRES.replace("n[1-4]", "m[1-4]"), None),
        ("AutoDetect=nvml\n", None),
        ("Name=gpu File=/dev/nvidia0", 1),
    ],
)
def test_gres_conf_says_how_many_gpus_there_should_be(text: str, count: int | None, tmp_path: Path) -> None:
    (tmp_path / "gres.conf").write_text(text)

    assert slurm_gpus(tmp_path / "gres.conf", frozenset({"n2"})) == count


@pytest.mark.parametrize(
    ("state", "reason", "off"),
    [
        ("IDLE", "", False),
        ("IDLE+DRAIN", "replace fan [root@2026-11-21T10:00:00]", True),
        ("DOWN+DRAIN", "moving racks [ada@2026-11-21T10:00:00]", True),
        ("IDLE+DRAIN", "GPU3 lost (XID 79) [gpu-exporter: repair by hand] [root@2026-11-21T10:00:00]", False),
        ("DOWN*", "Not responding [slurm@2026-11-21T10:00:00]", False),
        ("IDLE+DRAIN", "Kill task failed [root@2026-11-21T10:00:00]", False),
        ("IDLE+DRAIN", "NHC: check_fs [root@2026-11-21T10:00:00]", False),
        ("MAINT", "", True),
        ("IDLE+POWERED_DOWN", "", True),
    ],
)
def test_node_is_in_maintenance_when_a_person_took_it_out(state: str, reason: str, off: object) -> None:
    text = f"NodeName=n1 Arch=x86_64\n   State={state} ThreadsPerCore=1\n   Reason={reason}\n"

    assert in_maintenance(text) is off


def test_file_on_the_node_is_maintenance(tmp_path: Path) -> None:
    watch = FaultTracker(FaultWatchConfig(maintenance_file=tmp_path / "maintenance"))
    watch.observe(1000.0, 0.0, seen({}), (), driver=True)
    assert watch.status.maintenance == ()

    (tmp_path / "maintenance").write_text("moving racks\n")
    watch.observe(1005.0, 5.0, seen({}), (), driver=True)

    assert watch.status.maintenance == ("file",)


def test_watch_of_a_newer_state_file_keeps_its_faults_and_says_so_until_it_is_removed(tmp_path: Path) -> None:
    state_file.write_state(tmp_path / NAME, BOOK)
    newer = (tmp_path / NAME).read_text().replace('"version":1', '"version":2')
    (tmp_path / NAME).write_text(newer)
    watch = FaultTracker(FaultWatchConfig(tmp_path, boot="b"))
    watch.observe(5000.0, 0.0, seen({}), (), driver=True)
    watch._saver.save_once()  # type: ignore[union-attr]
    assert (watch.status.faults, watch.status.incomplete) == (BOOK.faults, ("version",))
    assert (tmp_path / f"{NAME}.version").read_text() == newer
    assert state_file.read_state(tmp_path / NAME).cause == ""

    again = FaultTracker(FaultWatchConfig(tmp_path, boot="b"))
    again.observe(5005.0, 5.0, seen({}), (), driver=True)
    assert again.status.incomplete == ("version",)

    (tmp_path / f"{NAME}.version").unlink()
    again.observe(5010.0, 10.0, seen({}), (), driver=True)
    assert again.status.incomplete == ()


def test_watch_that_only_reads_says_so_and_leaves_the_file(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"version":2}')
    watch = FaultTracker(FaultWatchConfig(tmp_path, boot="b", read_only=True))
    watch.observe(5000.0, 0.0, seen({}), (), driver=True)

    assert watch.status.incomplete == ("version",)
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
