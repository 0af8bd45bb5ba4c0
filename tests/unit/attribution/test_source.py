"""The seam of attribution: how sources are joined, whatever they are. An ambiguous process stays unnamed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporter.attribution import source as source_module
from exporter.attribution.assembly import factory
from exporter.attribution.assembly.factory import SOURCES, Parts, attribution_of
from exporter.attribution.join import SETTLE_SECONDS, Attribution
from exporter.attribution.owner import NOBODY, Owner, Ownership, WorkloadInfo
from exporter.attribution.source import Amounts, Match, ProcessIndex, ProcessIndexer, View, named
from exporter.core.clock import MonotonicTime, UnixTime
from tests.attribution_kit.nodes import cgroup, gpu, host_process, of

GPUS = tuple(gpu(number) for number in range(3))
UUIDS = tuple(each.uuid for each in GPUS)
PIDS = (7, 8, 9)
HOSTS = of(host_process(pid, cgroup("/system.slice/a.service")) for pid in PIDS)
K, V = TypeVar("K"), TypeVar("V")
NOW, LATER = MonotonicTime(1.0), MonotonicTime(1.0 + SETTLE_SECONDS)


class _Fixed:
    """A source that always reports the same."""

    readers = ()

    def __init__(self, view: View) -> None:
        self._view = view

    def view(self, processes: ProcessIndex, now: MonotonicTime) -> View:
        del processes, now
        return self._view


def _join(*views: View, running: Mapping[str, Sequence[int]] | None = None) -> Ownership:
    joined = Attribution([_Fixed(view) for view in views])
    return joined.join(GPUS, dict.fromkeys(UUIDS, PIDS) if running is None else running, HOSTS, NOW)


# A source that nothing else knows


class _Licences(_Fixed):
    """A toy: programs called like a licensed product are its project's, and the last GPU is lent to the project."""

    def __init__(self) -> None:
        super().__init__(View())

    def view(self, processes: ProcessIndex, now: MonotonicTime) -> View:
        del now
        owner = Owner("licence:solver", "licence")
        pids = [pid for group in processes.groups if group.command == "solver" for pid in group.pids]
        return View(
            names=dict.fromkeys(pids, named(owner)),
            allocated={owner: {processes.devices.targets[-1].uuid: None}},
        )


def test_new_source_is_one_class_and_one_line_of_registration() -> None:
    joined = attribution_of(Parts(), sources=(lambda _: _Licences(), *SOURCES))
    hosts = of([host_process(7, cgroup("/"), command="solver"), host_process(8, cgroup("/"), user="bob")])
    shown = joined.join(GPUS, {UUIDS[0]: [7, 8]}, hosts, NOW)

    solver = Owner("licence:solver", "licence", user="alice")  # the user is added by the source below
    assert shown.processes == {7: solver, 8: Owner("process:bob/python3", "process", user="bob")}
    assert shown.holders[UUIDS[2]] == (solver,)


# Properties over random sources

OWNERS = tuple(Owner(f"x:{number}", "x", "ns", f"pod-{number}", *("filled",) * 5) for number in range(4))
matches = st.builds(Match, st.frozensets(st.sampled_from(OWNERS), max_size=3))
amounts = st.dictionaries(st.sampled_from(UUIDS), st.none() | st.sampled_from((1.0, 2.0)))
views = st.builds(
    View,
    names=st.dictionaries(st.sampled_from(PIDS), matches),
    allocated=st.dictionaries(st.sampled_from(OWNERS), amounts),
)
sources = st.lists(views, max_size=4)


@example([View(names={7: Match(frozenset(OWNERS[:2]))}), View(names={7: named(OWNERS[0])})])
@given(sources)
def test_process_is_named_by_the_first_source_that_knows_it_and_only_where_that_has_one_owner(
    reported: Sequence[View],
) -> None:
    shown = _join(*reported)

    for pid in PIDS:
        word = next((view.names[pid].owners for view in reported if pid in view.names), frozenset[Owner]())
        assert shown.processes[pid] == (next(iter(word)) if len(word) == 1 else NOBODY)


@example([View(allocated={OWNERS[0]: {UUIDS[0]: None}}), View(allocated={OWNERS[0]: {UUIDS[1]: None}})])
@example([View(allocated={OWNERS[0]: {}}), View(allocated={OWNERS[0]: {UUIDS[1]: None}})])
@given(sources)
def test_gpu_is_allocated_by_one_source_and_an_owner_has_the_word_of_one(reported: Sequence[View]) -> None:
    shown = _join(*reported, running={})

    for uuid in UUIDS:
        having = {owner for owner in shown.holders.get(uuid, ()) if shown.weights[uuid, owner] > 0}
        deciding = [view for view in reported if having and having <= _allocated_to(view, uuid)]
        assert bool(deciding) is bool(having)
    for owner in OWNERS:
        first = next((view.allocated[owner] for view in reported if owner in view.allocated), {})
        assert {uuid for uuid, owners in shown.holders.items() if owner in owners} <= first.keys()


def _allocated_to(view: View, uuid: str) -> set[Owner]:
    return {owner for owner, targets in view.allocated.items() if uuid in targets}


@given(sources)
def test_every_gpu_that_somebody_was_allocated_is_divided_to_the_end(reported: Sequence[View]) -> None:
    shown = _join(*reported)

    for uuid in UUIDS:
        parts = [part for (target, _), part in shown.weights.items() if target == uuid]
        assert sum(parts) == pytest.approx(1.0)


@given(sources)
def test_owner_is_accused_only_where_no_source_allocated_it_the_gpu(reported: Sequence[View]) -> None:
    joined = Attribution([_Fixed(view) for view in (*reported, View(offered=frozenset(UUIDS)))])
    for now in (NOW, LATER):
        shown = joined.join(GPUS, dict.fromkeys(UUIDS, PIDS), HOSTS, now)

    for uuid in UUIDS:
        claimed = {owner for view in reported for owner in _allocated_to(view, uuid)}
        running = set(shown.processes.values()) - {NOBODY}
        assert shown.unallocated.get(uuid, frozenset()) == running - claimed


described = st.builds(
    View,
    cgroups=st.dictionaries(st.sampled_from(OWNERS), st.sampled_from(("/a", "/b", "/c", ""))),
    info=st.dictionaries(st.sampled_from(OWNERS), st.builds(WorkloadInfo, job_name=st.sampled_from("abc"))),
    ended=st.dictionaries(st.sampled_from("12"), st.sampled_from((UnixTime(1.0), UnixTime(2.0)))),
)


@example([
    View(cgroups={OWNERS[0]: f"/{name}"}, info={OWNERS[0]: WorkloadInfo(job_name=name)}, ended={"1": UnixTime(end)})
    for name, end in (("a", 1.0), ("b", 2.0))
])  # fmt: skip
@given(st.lists(described, max_size=3))
def test_cgroup_info_and_end_come_from_the_most_trusted_source_that_has_them(reported: Sequence[View]) -> None:
    shown = _join(View(allocated={owner: {UUIDS[0]: None} for owner in OWNERS}), *reported, running={})

    def first(words: Sequence[Mapping[K, V]]) -> Mapping[K, V]:
        return {key: next(each[key] for each in words if key in each) for word in words for key in word}

    cgroups = first([view.cgroups for view in reported])
    alone = {path for path, users in Counter(cgroups.values()).items() if users == 1 and path}
    assert shown.cgroups == {owner: path for owner, path in cgroups.items() if path in alone}
    assert shown.ended == first([view.ended for view in reported])
    info = first([view.info for view in reported])
    assert shown.info == {owner: info.get(owner, WorkloadInfo()) for owner in OWNERS}


# Labels from several sources

JOB = Owner("x:job", "x", user="alice")
A_POD, B_POD = (Owner(f"y/{name}", "y", namespace="y", pod=name, user="root") for name in "ab")


def test_labels_that_the_first_source_leaves_empty_come_from_the_next() -> None:
    shown = _join(View(names={7: named(JOB)}, allocated={JOB: {UUIDS[0]: None}}), View(names={7: named(A_POD)}))

    both = JOB._replace(namespace="y", pod="a")
    assert shown.processes[7] == both
    assert shown.holders[UUIDS[0]][-1] == both


def test_label_on_which_the_processes_of_one_owner_differ_stays_empty() -> None:
    shown = _join(
        View(names=dict.fromkeys(PIDS, named(JOB))),
        View(names={7: named(A_POD), 8: named(B_POD), 9: named(B_POD)}),
    )

    assert set(shown.processes.values()) == {JOB._replace(namespace="y")}


def test_idle_owner_gets_the_labels_of_the_place_of_its_cgroup() -> None:
    path = "/a.slice/job"
    joined = Attribution([
        _Fixed(View(allocated={JOB: {UUIDS[0]: None}}, cgroups={JOB: path})),
        _Fixed(View(places={path: named(A_POD)})),
    ])  # fmt: skip

    assert joined.join(GPUS, {}, {}, NOW).holders == {UUIDS[0]: (JOB._replace(namespace="y", pod="a"),)}


def test_cgroup_that_two_sources_give_to_two_owners_adds_labels_to_the_first() -> None:
    path, other = "/a.slice/job", JOB._replace(workload="x:other")
    given_to = {JOB: UUIDS[0], other: UUIDS[1]}
    joined = Attribution([
        *(_Fixed(View(allocated={owner: {uuid: None}}, cgroups={owner: path})) for owner, uuid in given_to.items()),
        _Fixed(View(places={path: named(A_POD)})),
    ])  # fmt: skip

    assert joined.join(GPUS, {}, {}, NOW).holders == {
        UUIDS[0]: (JOB._replace(namespace="y", pod="a"),),
        UUIDS[1]: (other,),
    }


def test_owner_keeps_labels_that_were_added_once() -> None:
    first, second = _Fixed(View(names={7: named(JOB)})), _Fixed(View(names={7: named(A_POD)}))
    joined = Attribution([first, second])
    before = joined.join(GPUS, {UUIDS[0]: [7]}, HOSTS, NOW).processes
    second._view = View(names={7: named(B_POD)})

    assert joined.join(GPUS, {UUIDS[0]: [7]}, HOSTS, LATER).processes == before


def test_owner_that_was_gone_gets_the_labels_of_its_new_time() -> None:
    """A job that is requeued runs in another pod."""
    first, second = _Fixed(View(names={7: named(JOB)})), _Fixed(View(names={7: named(A_POD)}))
    joined = Attribution([first, second])
    joined.join(GPUS, {UUIDS[0]: [7]}, HOSTS, NOW)
    first._view = second._view = View()
    joined.join(GPUS, {}, {}, LATER)
    first._view, second._view = View(names={7: named(JOB)}), View(names={7: named(B_POD)})

    shown = joined.join(GPUS, {UUIDS[0]: [7]}, HOSTS, MonotonicTime(LATER + SETTLE_SECONDS))

    assert shown.processes == {7: JOB._replace(namespace="y", pod="b")}


def test_what_was_allocated_of_a_pod_is_had_by_what_runs_in_it() -> None:
    pod = Owner("ns/a", "pod", "ns", "a", "main")
    amounts: Amounts = {UUIDS[0]: None}
    shown = _join(
        View(names={7: named(JOB)}),
        View(names={7: named(pod)}, allocated={pod: amounts}),
        running={UUIDS[0]: [7]},
    )

    inside = Owner("x:job", "x", "ns", "a", "main", user="alice")
    assert shown.holders == {UUIDS[0]: (inside,)}


# Processes that nobody is accused of, and what is shown of an owner


@pytest.mark.parametrize(
    ("command", "visible", "accused"),
    [("python3", True, True), ("python3", False, False), ("nvidia-cuda-mps", True, False)],
)
def test_process_that_proc_does_not_show_and_server_of_clients_are_not_accused(
    command: str, *, visible: bool, accused: bool
) -> None:
    joined = Attribution([_Fixed(View(names={7: named(JOB)}, offered=frozenset(UUIDS)))])
    hosts = of([host_process(7, cgroup("/a.slice"), command=command)])
    running = {UUIDS[0]: [7]}
    joined.join(GPUS, running, hosts, NOW)
    for now in (MonotonicTime(2.0), MonotonicTime(2.0 + SETTLE_SECONDS)):
        shown = joined.join(GPUS, running, hosts if visible else {}, now)

    assert bool(shown.unallocated) is accused


def test_owner_keeps_its_info_while_proc_does_not_show_its_process() -> None:
    source = _Fixed(View(names={7: named(JOB)}, info={JOB: WorkloadInfo(job_name="train")}))
    joined = Attribution([source])
    joined.join(GPUS, {UUIDS[0]: [7]}, HOSTS, NOW)
    source._view = View()

    assert joined.join(GPUS, {UUIDS[0]: [7]}, {}, LATER).info[JOB].job_name == "train"


def test_info_comes_from_the_most_trusted_source_that_has_any() -> None:
    words = (WorkloadInfo(job_name="first"), WorkloadInfo(job_name="second"))
    shown = _join(*(View(names={7: named(JOB)}, info={JOB: word}) for word in words))

    assert shown.info[JOB].job_name == "first"


def test_no_module_outside_a_source_names_it() -> None:
    """But the list of sources and their options; Nomad's tasks in containers go by the containers' names."""
    root = Path(factory.__file__).parents[1]
    named = {
        (path.parent.name, found)
        for path in root.rglob("*.py")
        if path.name not in ("factory.py", "config.py")
        for found in re.findall(r"from exporter\.attribution\.(slurm|kubernetes|nomad|containers)\b", path.read_text())
        if path.parent.name != found
    }

    assert named == {("nomad", "containers")}


def test_cgroup_is_parsed_once_while_a_process_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    plain = source_module.trusted_cgroup
    monkeypatch.setattr(
        source_module, "trusted_cgroup", lambda text, cgroupfs: parsed.append(text) or plain(text, cgroupfs)
    )
    indexer = ProcessIndexer(tmp_path)
    for pids in (PIDS, PIDS, (), PIDS):
        indexer.index(GPUS, {UUIDS[0]: pids}, HOSTS)

    assert parsed == [HOSTS[7].cgroup] * 2
