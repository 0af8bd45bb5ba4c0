"""Two Slurm clusters in one Prometheus have jobs of the same id: a summary is of this cluster's alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from exporter.tools.report.client import Access, Client, NoMetricsError
from exporter.tools.report.job import slurm_job


class Asked(Client):
    """Knows nothing, and keeps what it is asked about jobs."""

    def __init__(self) -> None:
        super().__init__(Access("http://localhost:9090"))
        self.queries: list[str] = []

    def _ask(self, what: str, values: Mapping[str, str], kind: str, made: object) -> Sequence[Any]:
        del made
        if "slurm_job" in values["query"]:
            self.queries.append(f"{what} {values['query']} {kind}")
        return []


@pytest.mark.parametrize(("cluster", "selector"), [("", '{slurm_job="9"}'), ("a", '{slurm_job="9", cluster="a"}')])
def test_queries_of_a_job_name_its_cluster(cluster: str, selector: str) -> None:
    client = Asked()
    with pytest.raises(NoMetricsError):
        slurm_job(client, cluster, "9", 86_400.0, 1.8e9)

    assert client.queries
    assert all(selector in query for query in client.queries)
