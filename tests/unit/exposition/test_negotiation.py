"""Which form a scraper gets: what it wants most of what there is."""

from __future__ import annotations

import pytest

from exporter.exposition.negotiation import accepts_gzip, content_type

PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@pytest.mark.parametrize(
    ("accept", "answered"),
    [
        ("application/json, application/openmetrics-text;q=0.1", OPENMETRICS),
        ("application/json", PLAIN),
        ("text/html, application/xhtml+xml", PLAIN),
        ("*/*, application/openmetrics-text;q=0.9", PLAIN),
        ("text/*;q=0.8, application/openmetrics-text;q=0.9", OPENMETRICS),
        ("application/openmetrics-text;q=0, */*;q=0.1", PLAIN),
        ("application/openmetrics-text;q=2", OPENMETRICS),
        ("application/openmetrics-text;q=much, text/plain;q=0.9", OPENMETRICS),
        ('APPLICATION/OPENMETRICS-TEXT; Q="0.9", text/plain; q=0.5', OPENMETRICS),
        ('application/openmetrics-text;version="1.0.0"', f"{OPENMETRICS}; escaping=underscores"),
        ("application/openmetrics-text;version=99999.0", PLAIN),
    ],
)
def test_format(accept: str, answered: str) -> None:
    assert content_type(accept) == answered


@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("deflate, gzip;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip;q=0.001", True),
        ("*", True),
        ("*;q=0.3", True),
        ("*;q=0", False),
        ("gzip;q=0, *", False),
        ("identity", False),
        ("gzip;q=0.5, identity", False),
        ("gzip, identity", True),
        ("gzip;q=0.5, identity;q=0.4", True),
        ("br, zstd", False),
    ],
)
def test_gzip_where_it_is_accepted_and_nothing_else_is_wanted_more(accepted: str, compressed: object) -> None:
    assert accepts_gzip(accepted) is compressed
