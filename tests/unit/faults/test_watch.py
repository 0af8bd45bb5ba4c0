"""The edge around the latch: how often it looks and asks, what is saved at once, and what Slurm is asked."""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.attribution.background_source import BackgroundSource, SourceError
from exporter.attribution.kubernetes.api_server import NodeObject
from exporter.core.threads import Threads
from exporter.faults import acknowledgements, state_file
from exporter.faults.expected import SlurmNodeState
from exporter.faults.model import FaultState, GpuRecord, Observation, ObservedGpu
from exporter.faults.state_file import Saver, StateError
from exporter.faults.watch import NAME, FaultTracker, FaultWatchConfig
from tests.attribution_kit.nodes import until

HEALTHY = ObservedGpu("GPU-0", 0, "S", "0000:00:00.0", up=True, joules=5e6, uncorrected=0.0, links=18)


def observe(watch: FaultTracker, second: float, gpu: ObservedGpu = HEALTHY) -> None:
    watch.observe(1000.0 + second, second, (gpu,), (), driver=True)


def saved(folder: Path) -> FaultState:
    return state_file.read_state(folder / NAME).state


def save(watch: FaultTracker) -> None:
    watch._saver.save_once()  # type: ignore[union-attr]


def test_next_look_is_due_five_seconds_after_the_last() -> None:
    watch = FaultTracker(FaultWatchConfig())
    assert watch.is_due(0.0)

    observe(watch, 100.0)

    assert [watch.is_due(second) for second in (100.0, 104.9, 105.0)] == [False, False, True]


def test_files_of_the_site_are_read_once_a_minute() -> None:
    asked: list[float] = []
    watch = FaultTracker(FaultWatchConfig(expected=lambda: {"option": len(asked)} if not asked.append(0.0) else {}))

    counts = []
    for second in (0.0, 59.9, 60.0, 119.9, 120.0):
        observe(watch, second)
        counts.append(watch.status.expected["option"])

    assert counts == [1, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("counts", "stated"),
    [({"option": 4, "slurm": 8}, 4), ({"option": None, "slurm": 8}, 8), ({"slurm": None}, 0)],
)
def test_number_of_gpus_is_stated_by_the_option_or_else_by_slurm(
    counts: Mapping[str, int | None], stated: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def advance(state: FaultState, observation: Observation) -> FaultState:
        seen.append(observation.stated)
        return state

    monkeypatch.setattr("exporter.faults.watch.advance_faults", advance)
    observe(FaultTracker(FaultWatchConfig(expected=lambda: counts)), 0.0)

    assert seen == [stated]


@pytest.mark.parametrize(
    ("change", "at_once"),
    [
        ({}, False),
        ({"joules": 6e6}, False),
        ({"links": 19}, True),
        ({"links": 17}, True),
        ({"uncorrected": 1.0}, True),
        ({"serial": "T"}, True),
        ({"index": 1}, True),
        ({"xids": {119: 1005.0}}, True),
    ],
)
def test_what_must_not_be_lost_is_saved_at_once_and_marks_are_not(
    change: dict[str, object], at_once: object, tmp_path: Path
) -> None:
    watch = FaultTracker(FaultWatchConfig(tmp_path, boot="b"))
    observe(watch, 0.0)
    observe(watch, 10.0)
    save(watch)
    before = saved(tmp_path)

    observe(watch, 15.0, replace(HEALTHY, **change))  # type: ignore[arg-type]
    save(watch)

    assert (saved(tmp_path) != before) is at_once
    assert watch.status.saved


def test_acknowledgement_and_restart_of_the_node_are_saved_at_once(tmp_path: Path) -> None:
    state_file.write_state(tmp_path / NAME, FaultState("a", {"GPU-0": GpuRecord(0, "S", "0000:00:00.0", 18)}))
    watch = FaultTracker(FaultWatchConfig(tmp_path, boot="b"))

    observe(watch, 0.0)
    save(watch)

    assert saved(tmp_path).boot == "b"


def test_node_whose_file_somebody_else_keeps_writes_none(tmp_path: Path) -> None:
    watch = FaultTracker(FaultWatchConfig(tmp_path, read_only=True))
    observe(watch, 0.0, replace(HEALTHY, uncorrected=1.0))
    watch.stop()

    assert watch.status.saved is None
    assert list(tmp_path.iterdir()) == []


def test_fault_is_logged_when_it_begins_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    watch = FaultTracker(FaultWatchConfig())
    with caplog.at_level(logging.INFO):
        observe(watch, 0.0)
        for second in (5.0, 10.0, 15.0):
            observe(watch, second, replace(HEALTHY, links=17))
        for second in range(20, 90, 5):
            observe(watch, float(second))

    assert [record.getMessage() for record in caplog.records] == [
        "fault: GPU 0 nvlink_down (1 of 18 links down), repair: inspect",
        "fault over: GPU 0 nvlink_down (1 of 18 links down)",
    ]


@pytest.mark.parametrize("stop_first", [False, True])
def test_saver_writes_what_it_is_offered_and_ends_with_what_it_is_stopped_with(
    tmp_path: Path, stop_first: object
) -> None:
    written: list[str] = []
    both = threading.Barrier(2, timeout=30)

    def write(_path: Path, state: FaultState) -> None:
        written.append(state.boot)
        if not stop_first and state.boot == "offered":
            both.wait()

    saver = Saver(tmp_path, write)
    if stop_first:
        saver.stop(FaultState("last"))
    thread = threading.Thread(target=saver.run, daemon=True)
    thread.start()
    if not stop_first:
        saver.offer_state(FaultState("offered"), 0.0, urgent=False)
        both.wait()
        saver.stop(FaultState("last"))
    thread.join(30)

    assert not thread.is_alive()
    assert written == (["last"] if stop_first else ["offered", "last"])


def test_saver_sleeps_while_it_is_offered_no_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saver, sleeps = Saver(tmp_path, lambda *_: None), threading.Event()
    wait = saver._wake.wait
    monkeypatch.setattr(saver._wake, "wait", lambda: sleeps.set() or wait())
    thread = threading.Thread(target=saver.run, daemon=True)
    thread.start()

    assert sleeps.wait(10)
    saver.stop(FaultState())
    thread.join(30)
    assert not thread.is_alive()


def test_maintenance_stays_what_it_was_while_nobody_can_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "maintenance"
    watch = FaultTracker(FaultWatchConfig(maintenance_file=file))
    told: list[tuple[tuple[str, ...], bool]] = []

    def told_at(second: float) -> None:
        observe(watch, second)
        told.append((watch.status.maintenance, watch.status.sources["file"]))

    told_at(0.0)
    file.touch()
    told_at(5.0)
    with monkeypatch.context() as closed:
        closed.setattr(Path, "stat", refuse)
        told_at(10.0)
        told_at(15.0)
    file.unlink()
    told_at(20.0)

    assert told == [((), True), (("file",), True), (("file",), False), (("file",), False), ((), True)]
    assert caplog.text.count("Permission denied") == 1


def refuse(path: Path) -> None:
    raise PermissionError(errno.EACCES, "Permission denied", str(path))


def test_file_of_maintenance_that_has_no_name_on_this_node_ends_no_cycle(tmp_path: Path) -> None:
    watch = FaultTracker(FaultWatchConfig(maintenance_file=tmp_path / ("x" * 300)))

    observe(watch, 0.0)

    assert (watch.status.maintenance, watch.status.sources) == ((), {"file": False})


def test_source_that_fails_is_logged_once_and_again_when_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    out = SlurmNodeState(maintenance=True)
    answers = [SourceError("refused"), SourceError("refused"), out, out, SourceError("gone")]
    source: BackgroundSource[SlurmNodeState | None] = BackgroundSource(
        lambda: answered(answers), nothing=None, name="slurm-node", interval=lambda _: 1.0, clock=lambda: 0.0
    )
    watch = FaultTracker(FaultWatchConfig(slurm=source))
    told: list[tuple[tuple[str, ...], dict[str, bool]]] = []
    with caplog.at_level(logging.INFO):
        observe(watch, 0.0)
        assert watch.status.sources == {}
        for second in (5.0, 10.0, 15.0, 20.0, 25.0):
            source.ask_once()
            observe(watch, second)
            told.append((watch.status.maintenance, dict(watch.status.sources)))

    assert told == [
        ((), {"slurm": False}),
        ((), {"slurm": False}),
        (("slurm",), {"slurm": True}),
        (("slurm",), {"slurm": True}),
        (("slurm",), {"slurm": False}),
    ]
    refused = "slurm does not say what this node should have, nor whether it is in maintenance: "
    assert [record.getMessage() for record in caplog.records if record.name.endswith("watch")] == [
        f"{refused}refused",
        "slurm says again what this node should have, and whether it is in maintenance",
        f"{refused}gone",
    ]


def answered(answers: list[SlurmNodeState | SourceError]) -> SlurmNodeState:
    answer = answers.pop(0)
    if isinstance(answer, SourceError):
        raise answer
    return answer


@pytest.mark.parametrize(
    ("slurm", "kubernetes", "pool"),
    [
        (None, None, None),
        ("", None, ""),
        ("spot", "cheap", "spot"),
        ("", "cheap", "cheap"),
        (None, "", ""),
        (None, "cheap", "cheap"),
    ],
)
def test_pool_of_node_is_that_of_slurm_else_of_kubernetes(
    slurm: str | None, kubernetes: str | None, pool: str | None
) -> None:
    of_slurm = BackgroundSource(
        lambda: None if slurm is None else SlurmNodeState(maintenance=False, pool=slurm),
        nothing=None,
        name="slurm-node",
        interval=lambda _: 1.0,
    )
    of_kubernetes = BackgroundSource(
        lambda: NodeObject(8, pool=kubernetes), NodeObject(), name="kubernetes-node", interval=lambda _: 1.0
    )
    watch = FaultTracker(FaultWatchConfig(slurm=of_slurm, kubernetes=of_kubernetes))
    assert watch.pool is None  # nobody has answered

    of_slurm.ask_once()
    of_kubernetes.ask_once()

    assert watch.pool == pool


class Started:
    """In place of the threads: what is started, by name."""

    def __init__(self) -> None:
        self.threads: dict[str, Callable[[], None]] = {}

    def start(self, name: str, run: Callable[[], None], longest_pause: float = 1.0) -> None:
        assert longest_pause > 0
        self.threads[name] = run


def test_faults_are_saved_by_a_thread_of_their_own_to_the_end(tmp_path: Path) -> None:
    watch, started = FaultTracker(FaultWatchConfig(tmp_path, boot="b")), Started()
    watch.start(started)  # type: ignore[arg-type]
    observe(watch, 0.0)
    observe(watch, 10.0)
    thread = threading.Thread(target=started.threads["faults"], daemon=True)
    watch.stop()
    thread.start()
    thread.join(30)

    assert list(started.threads) == ["faults", "site-files"]
    assert not thread.is_alive()
    assert saved(tmp_path) == watch._state


def test_files_on_a_mount_that_hangs_stay_as_they_were_while_faults_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back, asked, threads = threading.Event(), list[float](), Threads()

    def expected() -> Mapping[str, int | None]:
        asked.append(0.0)
        assert len(asked) == 1 or back.wait(60)
        return {"slurm": 4 + len(asked)}

    watch = FaultTracker(FaultWatchConfig(tmp_path, boot="b", expected=expected, maintenance_file=tmp_path / "file"))
    watch.start(threads)
    observe(watch, 0.0)
    assert (watch.status.expected["slurm"], watch.status.sources) == (5, {"file": True})

    monkeypatch.setattr("exporter.faults.watch.FILES_SECONDS", 0.01)
    observe(watch, 60.0)
    observe(watch, 65.0, replace(HEALTHY, xids={79: 1062.0}))
    assert [fault.evidence for fault in watch.status.faults] == ["XID 79"]
    assert (watch.status.expected["slurm"], watch.status.sources) == (5, {"file": False, "acknowledgements": False})

    back.set()
    until(lambda: not watch._reader.busy_seconds)  # type: ignore[union-attr]
    monkeypatch.setattr("exporter.faults.watch.FILES_SECONDS", 60.0)
    observe(watch, 70.0)
    assert (watch.status.expected["slurm"], watch.status.sources) == (7, {"file": True})
    watch.stop()
    threads.stop()


def fifo(path: Path) -> None:
    os.mkfifo(path, 0o600)


def link(path: Path) -> None:
    (path.parent / "target").write_text('{"time":1,"gpu":"0","fault":"xid","by":"a","why":"b"}\n')
    (path.parent / "target").chmod(0o600)
    path.symlink_to("target")


@pytest.mark.parametrize(
    ("plant", "complaint"), [(fifo, "not a file"), (link, "Too many levels"), (Path.mkdir, "not a file")]
)
def test_acknowledgements_in_anything_but_a_file_of_their_own_are_not_read(
    plant: Callable[[Path], object], complaint: str, tmp_path: Path
) -> None:
    plant(tmp_path / acknowledgements.NAME)

    with pytest.raises(StateError, match=f"acknowledged.jsonl: {complaint}"):
        acknowledgements.read_acknowledgements(tmp_path)


def test_complaint_about_the_file_names_it_and_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()

    with pytest.raises(StateError, match=r"faults.json: Is a directory$"):
        saved(tmp_path)
