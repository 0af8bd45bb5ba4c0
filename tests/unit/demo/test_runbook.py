"""The demo's runbooks lead on to what their alert fires for."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.demo import runbook
from deploy.demo.prometheus import Prometheus, QueryError, Sample
from exporter.web import runbooks

LABELS = {"alertname": "GpuLost", "cluster": "c&1", "instance": "n1", "gpu": "2"}


@dataclass(frozen=True)
class Fires(Prometheus):
    labels: tuple[dict[str, str], ...] = ()

    def instant(self, expression: str, time: float | None = None) -> list[Sample]:
        assert time is None
        if not self.labels:
            raise QueryError("does not answer")
        assert 'alertname="GpuLost"' in expression
        return [Sample(each, 1.0) for each in self.labels]


def test_address_has_the_labels_of_the_alert_in_their_places() -> None:
    address = "/d/gpu-device?var-cluster=$cluster&var-instance=$instance&var-gpu=$gpu"

    assert runbook.filled(address, LABELS) == "/d/gpu-device?var-cluster=c%261&var-instance=n1&var-gpu=2"
    assert runbook.filled(address, {"gpu": "0"}) == "/d/gpu-device?var-gpu=0"
    assert runbook.filled("/d/gpu-fleet?var-cluster=$cluster", {}) == "/d/gpu-fleet"


def test_page_says_where_it_fires_and_how_to_go_on() -> None:
    page = runbook.body("gpulost", Fires("http://p", (LABELS,)), {"n1": "http://n1"})

    assert "<li>n1, GPU 2: " in page
    assert 'href="/d/gpu-device?var-cluster=c%261&amp;var-instance=n1&amp;var-gpu=2"' in page
    assert 'href="http://n1/"' in page
    assert "(rules gpu_missing, gpu_down, lost" in page
    assert "<h1>GpuLost</h1>" in page


def test_page_is_there_without_prometheus() -> None:
    assert runbook.body("gpulost", Fires("http://p"), {}) == runbooks.pages()["gpulost"]["html"]


def test_unknown_name_has_no_page() -> None:
    assert runbook.body("gpunone", Fires("http://p"), {}) == ""
