"""How often it is asked who an owner's programs are, and whether they listen."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from exporter.attribution.owner import Owner, Ownership
from exporter.host.network import Listeners
from exporter.sampling.usage.host_reader import HostReader
from tests.unit.host.test_reader import host, reader, write

JOB = Owner(workload="slurm:1", kind="slurm")


class Asked:
    """When somebody was asked whether it listens, in seconds; what it listens on since when."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.at = 0.0, list[float]()
        self.opens = float("inf")
        monkeypatch.setattr(Listeners, "ports", self._ports)

    def _ports(self, pids: Iterable[int], *, own_namespace: bool) -> frozenset[int]:
        del pids, own_namespace
        self.at.append(self.now)
        return frozenset({8000} if self.now >= self.opens else ())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


def run(subject: HostReader, asked: Asked, until: int, pid: int = 10) -> None:
    ownership = Ownership(processes={pid: JOB}, cgroups={JOB: "/job"})
    while asked.now < until:
        subject.read(ownership, {pid: host(pid)}, asked.now)
        asked.now += 1.0


def test_who_says_the_same_again_and_again_is_asked_more_seldom(tmp_path: Path, asked: Asked) -> None:
    write(tmp_path)
    run(reader(tmp_path), asked, 500)

    assert asked.at == [0.0, 30.0, 90.0, 210.0, 330.0, 450.0]


def test_who_begins_to_listen_is_asked_often_again(tmp_path: Path, asked: Asked) -> None:
    write(tmp_path)
    asked.opens = 200.0
    run(reader(tmp_path), asked, 400)

    assert asked.at == [0.0, 30.0, 90.0, 210.0, 240.0, 300.0]


def test_another_process_is_asked_at_once(tmp_path: Path, asked: Asked) -> None:
    write(tmp_path)
    subject = reader(tmp_path)
    run(subject, asked, 100)
    write(tmp_path, pid=11)
    run(subject, asked, 150, pid=11)

    assert asked.at == [0.0, 30.0, 90.0, 100.0, 130.0]


def test_worker_of_ray_serves_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its port is another one each time, and the head, which is elsewhere, stays connected to it."""
    monkeypatch.setattr(Listeners, "ports", lambda *_, **__: frozenset({14531}))
    write(tmp_path)
    subject, ownership = reader(tmp_path), Ownership(processes={10: JOB}, cgroups={JOB: "/job"})
    found: list[bool | None] = []
    for number, command_line in enumerate(["python\0app.py\0", "ray::A.fit\0\0\0"]):
        (tmp_path / "proc/10/cmdline").write_text(command_line)
        for now in (100.0, 101.0):
            _, signals = subject.read(ownership, {10: host(10)}, 200.0 * number + now)
            found.append(signals[JOB].serves if JOB in signals else None)

    assert found[1::2] == [True, False]
