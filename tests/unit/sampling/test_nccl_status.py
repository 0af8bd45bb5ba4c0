"""What NCCL says of workloads that seem to hang: who is asked, how often, and what is made of the answers."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.attribution.owner import Owner
from exporter.core.clock import MonotonicTime
from exporter.host import namespace
from exporter.host.nccl_ras import RasAnswer, RasError, parse_json
from exporter.sampling.usage.nccl_status import NCCL_FAMILIES, NcclReader, verdict_of
from tests.growth import grown
from tests.unit.host.ras_server import page, rank, ras_server

JOB = Owner(workload="slurm:7", kind="slurm", slurm_job="7")
ME = os.getpid()
LAGS = replace(parse_json(page(rank(0, 1200, ME), rank(1, 1199))), user=os.getuid())
STEADY = replace(parse_json(page(rank(0, 1200, ME), rank(1, 1200))), user=os.getuid())


def test_ranks_that_lag_or_do_not_answer_are_the_culprits() -> None:
    gone = parse_json(page(rank(0, 1200), missing=(rank(3, 0),)))

    assert [(verdict_of(each).verdict, [r.rank for r in verdict_of(each).ranks]) for each in (LAGS, gone)] == [
        ("rank_lags", [1]),
        ("rank_missing", [3]),
    ]


def test_hung_collective_and_spinning_kernel_are_told_apart() -> None:
    """All launched the same and nothing goes on: no rank lags, so a kernel spins, or the network fails."""
    later = parse_json(page(rank(0, 1300), rank(1, 1299)))

    assert verdict_of(STEADY, STEADY.operations).verdict == "in_step"
    assert verdict_of(LAGS, LAGS.operations).verdict == "rank_lags"
    assert verdict_of(later, LAGS.operations).verdict == "moving"


def test_rank_that_answers_no_more_or_again_is_no_collective_that_goes_on() -> None:
    fewer = parse_json(page(rank(0, 1200, ME), missing=(rank(1, 0),)))

    assert verdict_of(fewer, STEADY.operations).verdict == "rank_missing"
    assert verdict_of(STEADY, fewer.operations).verdict == "in_step"


class Clock:
    now = 1000.0

    def __call__(self) -> MonotonicTime:
        return MonotonicTime(self.now)


def _reader(put: Callable[[], RasAnswer], clock: Clock) -> NcclReader:
    return NcclReader(clock=clock, put=lambda _address, _mine: put())


def test_a_workload_is_asked_on_suspicion_twice_and_then_once_a_minute() -> None:
    clock, asked = Clock(), list[float]()

    def put() -> RasAnswer:
        asked.append(clock.now)
        return LAGS

    reader = _reader(put, clock)
    reader._source.ask_once()
    for _ in range(13):
        reader.statuses({JOB: [ME]})
        reader._source.ask_once()
        clock.now += 15

    assert asked == [1000, 1015, 1075, 1135]
    assert reader.statuses({JOB: [ME]})[JOB].verdict == "rank_lags"
    assert reader.statuses({}) == {}


def test_answer_of_another_job_on_the_same_network_is_not_taken() -> None:
    """It is of the same user: only the processes that it names tell it apart."""
    strangers = replace(parse_json(page(rank(0, 5, 999_999), rank(1, 4, 999_998))), user=os.getuid())
    reader = _reader(lambda: strangers, Clock())
    reader.statuses({JOB: [ME]})
    reader._source.ask_once()

    assert reader.statuses({JOB: [ME]})[JOB].verdict == "no_answer"


@pytest.mark.parametrize("user", [os.getuid() + 1, None])
def test_answer_of_another_user_that_names_the_jobs_process_is_not_taken(user: int | None) -> None:
    reader = _reader(lambda: replace(LAGS, user=user), Clock())
    reader.statuses({JOB: [ME]})
    reader._source.ask_once()

    assert reader.statuses({JOB: [ME]})[JOB].verdict == "no_answer"


@pytest.mark.parametrize(
    ("user", "verdict"), [(1001, "rank_lags"), (1002, "rank_lags"), (1003, "no_answer"), (0, "no_answer")]
)
def test_answer_must_come_from_the_real_or_the_effective_user_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, verdict: str
) -> None:
    """A socket has the effective user of its process. The saved user (1003) made none."""
    (tmp_path / str(ME)).mkdir()
    (tmp_path / f"{ME}/status").write_text(f"Uid:\t1001\t1002\t1003\t1002\nNSpid:\t{ME}\n")
    monkeypatch.setattr(namespace, "run_in_network_namespace", lambda _procfs, _pid, work, _deadline: work())
    answer = replace(LAGS, user=user)
    reader = NcclReader(tmp_path, clock=Clock(), put=lambda _address, _mine: answer)
    reader.statuses({JOB: [ME]})
    reader._source.ask_once()

    assert reader.statuses({JOB: [ME]})[JOB].verdict == verdict


def test_nor_where_it_is_the_nodes_network_and_not_the_exporters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exporter in a pod of its own enters the node's network, in which every job with hostNetwork listens."""
    for pid in ("1", str(ME)):
        (tmp_path / pid / "net").mkdir(parents=True)
        (tmp_path / pid / "status").write_text(f"NSpid:\t{pid}\n")
    (tmp_path / "1/net/dev").write_text("")
    (tmp_path / str(ME) / "net/dev").hardlink_to(tmp_path / "1/net/dev")
    monkeypatch.setattr(namespace, "shares_network_namespace", lambda *_: False)
    monkeypatch.setattr(namespace, "run_in_network_namespace", lambda _procfs, _pid, work, _deadline: work())
    strangers = parse_json(page(rank(0, 5, 999_999), rank(1, 4, 999_998)))
    reader = NcclReader(tmp_path, clock=Clock(), put=lambda _address, _mine: strangers)
    reader.statuses({JOB: [ME]})
    reader._source.ask_once()

    assert reader.statuses({JOB: [ME]})[JOB].verdict == "no_answer"


def test_reader_forgets_workloads_that_are_gone() -> None:
    reader = _reader(lambda: LAGS, Clock())

    def next_round(number: int) -> None:
        reader.statuses({JOB._replace(workload=f"slurm:{number}"): [ME]})
        reader._source.ask_once()

    assert grown(reader, next_round) == {}


def test_job_without_nccl_has_no_answer_and_nothing_failed() -> None:
    def put() -> RasAnswer:
        raise RasError("refused")

    reader = _reader(put, Clock())
    reader.statuses({JOB: [ME]})
    reader._source.ask_once()

    assert reader.statuses({JOB: [ME]})[JOB].verdict == "no_answer"
    assert reader.health().success


def test_missing_right_to_enter_the_jobs_network_is_a_failure_that_says_which(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def denied(*_: object) -> RasAnswer:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(namespace, "run_in_network_namespace", denied)
    reader = _reader(lambda: LAGS, Clock())
    reader.statuses({JOB: [ME]})
    reader._source.ask_once()

    assert not reader.health().success
    assert "CAP_SYS_ADMIN" in reader._source.answer.error
    assert reader.statuses({JOB: [ME]}) == {}


def test_families_name_the_rank_its_host_and_gpu() -> None:
    with ras_server(page(rank(0, 1200, ME), rank(9, 1199))) as address:
        reader = NcclReader(Path("/proc"), address, Clock())
        reader.statuses({JOB: [ME]})
        reader._source.ask_once()
    found = reader.statuses({JOB: [ME]})
    status, lagging = ([sample.labels for sample in family.collect(found)] for family in NCCL_FAMILIES)

    assert status == [(*JOB.labels, "rank_lags")]
    assert lagging == [(*JOB.labels, "9", "node1", "1", "4009")]
