"""Asking NCCL's RAS port, on one of our own that behaves in every way."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.host import nccl_ras
from exporter.host.nccl_ras import RasError, ask, parse_json, parse_text, peer_user
from tests.unit.host.ras_server import TEXT, page, rank, ras_server


def test_rank_that_lags_is_named_by_its_counts() -> None:
    with ras_server(page(*(rank(each, 1199 if each == 9 else 1200) for each in range(16)))) as address:
        answer = ask(address)
    (lagging,) = answer.communicators[0].lagging

    assert (lagging.rank, lagging.host, lagging.pid, lagging.gpu) == (9, "node1", 4009, "1")
    assert sum(answer.operations.values()) == 16 * 1201 - 1
    assert 4009 in answer.pids


def test_older_release_answers_a_page_of_text() -> None:
    with ras_server(TEXT, json_known=False) as address:
        answer = ask(address)
    (lagging,) = answer.communicators[0].lagging

    assert (lagging.rank, lagging.host, lagging.pid, lagging.gpu) == (2, "10.0.0.7", 4002, "2")
    assert not answer.operations


def test_text_names_ranks_under_their_group_and_those_that_are_missing() -> None:
    group = """#0-0 (8a8c) MISMATCH
  2 ranks have launched up to operation 7
  2 ranks have launched up to operation 6
  Rank 1 -- GPU 1 managed by process 41 on node a
  Rank 3 -- GPU 3 managed by process 43 on node a
#1-0 (8a8d) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 5 -- GPU 5 managed by process 45 on node b
"""
    first, second = parse_text(group).communicators

    assert [each.rank for each in first.lagging] == [1, 3]
    assert [each.rank for each in second.missing] == [5]


def test_messages_between_two_ranks_do_not_count() -> None:
    assert not parse_json(page(rank(0, 5), rank(7, 5))).communicators[0].lagging


@pytest.mark.parametrize("how", ["silent", "endless", "other", "closes"])
def test_other_side_that_misbehaves_costs_a_deadline_at_most(how: str) -> None:
    with ras_server("", how=how) as address, pytest.raises(RasError):
        ask(address, deadline=0.2 if how == "silent" else 5.0)


def test_process_that_hangs_is_not_the_last_one_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """All processes of a job listen on one port, and the one that hangs may be the one the kernel picks."""
    monkeypatch.setattr(nccl_ras, "CONNECT_TIMEOUT_SECONDS", 0.2)
    with ras_server(page(rank(0, 7)), how="well", silent_first=2) as address:
        assert sum(ask(address).operations.values()) == 8


def test_answer_of_another_job_on_the_same_port_is_not_the_last_one() -> None:
    with ras_server(page(rank(0, 7, 41)), page(rank(0, 9, 42))) as address:
        assert sum(ask(address, mine=lambda answer: 42 in answer.pids).operations.values()) == 10


def test_others_alone_are_no_answer() -> None:
    with ras_server(page(rank(0, 7, 41))) as address, pytest.raises(RasError, match=r"^only other jobs answer$"):
        ask(address, mine=lambda answer: 42 in answer.pids)


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")
def test_localhost_is_whatever_the_job_resolved_it_to() -> None:
    with ras_server(page(rank(0, 7)), host="::1") as (_, port):
        assert sum(ask(("localhost", port)).operations.values()) == 8


def test_nobody_there_is_said() -> None:
    with ras_server("") as address:
        pass
    with pytest.raises(RasError):
        ask(address, deadline=1.0)


@given(st.text())
def test_any_text_is_survived(text: str) -> None:
    parse_text(text)
    parse_text("#0-0 (ab) MISMATCH\n  Rank 1" + text)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["communicators", "ranks", "rank", "missing_ranks", "collective_counts", "host", "pid", "nvml_dev", "AllReduce"]), inner), max_leaves=20))  # fmt: skip  # noqa: E501
def test_any_json_is_survived(document: Any) -> None:
    parse_json(json.dumps(document))
    parse_json(json.dumps({"communicators": [{"ranks": document, "missing_ranks": [document]}]}))


def test_what_is_no_json_is_an_error() -> None:
    with pytest.raises(RasError):
        parse_json("[" * 100_000)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_answer_has_the_user_of_the_process_that_gave_it(host: str) -> None:
    with ras_server(page(rank(0, 5)), host=host) as address:
        assert ask(address).user == os.getuid()


_FORGER = """
import os, sys
from tests.unit.host.ras_server import page, rank, ras_server
os.setuid(65534)
with ras_server(page(rank(0, 5)), host="127.0.0.1") as address:
    print(address[1], flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_answer_of_another_account_has_its_user() -> None:
    command = [sys.executable, "-c", _FORGER]
    with subprocess.Popen(
        command, cwd=Path(__file__).parents[3], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as forger:
        assert forger.stdout
        assert ask(("127.0.0.1", int(forger.stdout.readline()))).user == 65534
        forger.communicate()


def test_connection_that_the_kernel_does_not_list_has_no_user(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert peer_user(client, tmp_path) is None
