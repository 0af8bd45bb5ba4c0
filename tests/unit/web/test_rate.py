"""The rate limit: a token bucket, and what it means to a request."""

from __future__ import annotations

import pytest

from exporter.web.app import App, Policy, RouteHandlers
from exporter.web.auth import TokenBucket


def test_a_bucket_gives_its_burst_and_then_one_per_interval() -> None:
    now = [0.0]
    bucket = TokenBucket(interval=2.0, burst=3, clock=lambda: now[0])
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    now[0] = 1.9
    assert not bucket.take()
    now[0] = 4.0
    assert [bucket.take() for _ in range(3)] == [True, True, False]
    now[0] = 1000.0
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]


@pytest.mark.parametrize(
    ("path", "status"), [("/metrics", "429"), ("/", "429"), ("/-/healthy", "200"), ("/-/ready", "200")]
)
def test_beyond_the_limit_only_the_probes_are_answered(path: str, status: str) -> None:
    pages = RouteHandlers(metrics=lambda _: ("text/plain", b""), status=lambda: "", ready=lambda: "")
    application = App(pages, "/metrics", lambda: Policy(allows=lambda: False))

    assert application.respond({"REQUEST_METHOD": "GET", "PATH_INFO": path}).status.startswith(status)
