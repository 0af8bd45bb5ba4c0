"""The demo's first page says what is broken, and leaves out what would be shown as nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from deploy.demo.cluster import NODES
from deploy.demo.entrance import Links, body
from deploy.demo.prometheus import Prometheus, Sample

LINKS = Links({node.name: f"http://127.0.0.1:1/{node.name}" for node in NODES}, "http://127.0.0.1:2", (), "docker run")
ANSWERS = {
    "gpu_fault_timestamp_seconds": [
        Sample({"node": "serve-1", "gpu": "2", "fault": "row_remap_failed", "evidence": "no spare <rows>"}, 1.0)
    ],
    "sum by (state) (rate(gpu_state_seconds_total": [
        Sample({"state": "computing"}, 7.0),
        Sample({"state": "wait_peer"}, 0.01),
    ],
    "ALERTS": [Sample({"alertname": "GpuAllocatedIdle", "alertstate": "firing", "severity": "warning"}, 1.0)],
}


class Fake:
    url = "http://127.0.0.1:2"

    def instant(self, expression: str) -> Sequence[Sample]:
        return next((found for part, found in ANSWERS.items() if part in expression), [])


def test_a_fault_stands_on_the_card_of_its_node_and_nowhere_else() -> None:
    text = body(cast("Prometheus", Fake()), (), LINKS)
    cards = text.split('<section class="card">')[1:]

    told = [card for card in cards if "GPU 2: no spare &lt;rows&gt;" in card]

    assert len(told) == 1
    assert "<h3>serve-1</h3>" in told[0]


def test_a_state_that_would_be_shown_as_nothing_is_left_out() -> None:
    text = body(cast("Prometheus", Fake()), (), LINKS)

    assert "Computing 7.0" in text
    assert "Waits for peers" not in text


def test_columns_of_alerts_have_names() -> None:
    text = body(cast("Prometheus", Fake()), (), LINKS)

    assert "<th>alert</th>" in text
    assert "gpuallocatedidle" in text


def test_counts_of_gpus_are_written_as_people_write_them() -> None:
    labels = {"node": "mig-1", "state": "computing", "user": ""}
    counts = {"a": 1.0, "ml/Job/b": 4.0, "c": 0.25}
    rows = [Sample({**labels, "workload": name}, gpus) for name, gpus in counts.items()]

    class Busy(Fake):
        def instant(self, expression: str) -> Sequence[Sample]:
            return rows if "gpu_workload_gpu_seconds_total" in expression and "workload" in expression else []

    text = body(cast("Prometheus", Busy()), (), LINKS)

    assert all(f"<td>{shown}</td>" in text for shown in ("1&nbsp;GPU", "4&nbsp;GPUs", "0.2&nbsp;GPUs"))
    assert ">ml/<wbr>Job/<wbr>b</a>" in text
