"""One service for several clusters: equal names of nodes, jobs and pods are counted apart."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from exporter.accounting.store import read_after
from exporter.tools.report.accounting.collector import collect, expand
from exporter.tools.report.accounting.database import Database
from exporter.tools.report.accounting.prices import PriceRow, Prices
from tests.unit.accounting.node import Job, Node

T0 = 1_760_000_400.0


def test_two_clusters_with_equal_nodes_jobs_and_pods_are_counted_apart(tmp_path: Path) -> None:
    """The same node name, job id, pod and start: only the stores, and how long it took, differ."""
    nodes = {
        cluster: Node(
            tmp_path / f"{cluster}.sqlite",
            (Job("7", T0, T0 + seconds), Job("chat", T0, T0 + 2 * seconds, ("GPU-1",), namespace="web")),
            T0 - 10,
            all_gpus=("GPU-0", "GPU-1"),
        )
        for cluster, seconds in (("west", 600.0), ("east", 900.0))
    }
    targets = {f"{cluster}=https://{cluster}.example:9836": cluster for cluster in nodes}
    paths = {f"https://{cluster}.example:9836": nodes[cluster].path for cluster in nodes}
    prices = Prices("EUR", (PriceRow("", 2.0, cluster="west"), PriceRow("", 3.0)))

    def ask(url: str, after: int) -> Mapping[str, Any]:
        return {"node": "gpu01", **read_after(paths[url], after, 3)}

    with contextlib.closing(Database(tmp_path / "service.sqlite")) as database:
        for until in (T0 + 500, T0 + 3600):
            for node in nodes.values():
                node.cycles(until)
            assert collect(database, tuple(targets), ask, lambda: T0) == {}
            database.sum_hours()
        both = {each.name: each.seconds for each in database.totals("cluster", T0 - 10, T0 + 3600)}
    for node in nodes.values():
        node.close()

    assert both == pytest.approx({"west": 2 * 3610, "east": 2 * 3610}, abs=15)
    for cluster, seconds, price in (("west", 600, 2.0), ("east", 900, 3.0)):
        with contextlib.closing(Database(tmp_path / "service.sqlite", cluster)) as database:
            charges = database.charges("team", T0 - 3600, T0 + 3600, prices)
            (node,) = {each.name for each in database.totals("node", T0 - 3600, T0 + 3600)}
            job = database.job("7", T0, T0 + 3600).seconds
        assert {each.name: each.hours * 3600 for each in charges if each.name} == pytest.approx(
            {"vision": seconds, "web": 2 * seconds}
        )
        assert {each.price for each in charges} == {price}
        assert (node, job) == (f"{cluster}/gpu01", pytest.approx(seconds))


@pytest.mark.parametrize(
    ("target", "addresses", "targets"),
    [
        ("http://gpu01", ("10.0.0.1", "10.0.0.1"), ("http://gpu01",)),
        ("http://gpus:9836", ("10.0.0.2", "10.0.0.1"), ("http://10.0.0.1:9836", "http://10.0.0.2:9836")),
        ("http://gpus/x", ("fd00::1", "fd00::2"), ("http://[fd00::1]/x", "http://[fd00::2]/x")),
        ("https://gpu01:9836", ("fd00::1", "10.0.0.2"), ("https://gpu01:9836",)),
        ("http://gpus", ("fd00::1", "fd00::2", "10.0.0.1", "10.0.0.2"), ("http://10.0.0.1", "http://10.0.0.2")),
        ("west=http://gpus:1", ("10.0.0.1", "10.0.0.2"), ("west=http://10.0.0.1:1", "west=http://10.0.0.2:1")),
        ("http://gpus:9836", (), ("http://gpus:9836",)),
    ],
)
def test_name_of_several_addresses_is_each_of_them(
    target: str, addresses: tuple[str, ...], targets: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(*_: object, **__: object) -> list[tuple[object, ...]]:
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 9836)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)

    assert tuple(expand([target])) == targets
