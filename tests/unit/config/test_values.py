"""What each kind of option takes and what it refuses, at the edges of its range; and what it says was expected."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from exporter.config import kinds as known


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        *((known.boolean, text, True) for text in ("true", "yes", "on", "1", " True ", "YES")),
        *((known.boolean, text, False) for text in ("false", "no", "off", "0", " Off ", "NO")),
        (known.non_negative_int, "0", 0),
        (known.non_negative_int, " 7 ", 7),
        (known.non_negative_int, "9" * 18, 10**18 - 1),
        (known.number, "-1.5", -1.5),
        (known.non_negative, "0", 0.0),
        (known.ratio, "0", 0.0),
        (known.ratio, "1", 1.0),
        (known.positive_duration, "1ms", 0.001),
        (known.duration, "36500d", 36_500 * 86400.0),
        (known.address, ":0", ("", 0)),
        (known.address, "node-1:65535", ("node-1", 65535)),
        (known.address, "[fe80::AB]:9836", ("fe80::AB", 9836)),
        (known.url_path, "/metrics", "/metrics"),
        (known.url_path, "/a/b.c-d_e", "/a/b.c-d_e"),
        (known.http_url, "", ""),
        (known.http_url, "http://127.0.0.1:4646/", "http://127.0.0.1:4646"),
        (known.http_url, "https://NOMAD-X/", "https://NOMAD-X"),
        (known.http_url, "http://[fe80::AB]:4646", "http://[fe80::AB]:4646"),
        (known.web_address, "", ""),
        (known.web_address, "https://prometheus.example:9090/path", "https://prometheus.example:9090/path"),
        (known.web_address, "http://b\u00fccher.example", "http://b\u00fccher.example"),
    ],
)
def test_what_is_taken(parse: Callable[[str], Any], text: str, value: object) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (known.boolean, "maybe", "true or false"),
        (known.boolean, "", "true or false"),
        (known.non_negative_int, "-1", "a whole number"),
        (known.non_negative_int, "1.0", "a whole number"),
        (known.non_negative_int, "1" * 19, "a whole number of at most 18 digits"),
        (known.number, "inf", "a number"),
        (known.number, "nan", "a number"),
        (known.number, "ten", "a number"),
        (known.non_negative, "-0.1", "a number from 0 on"),
        (known.ratio, "1.01", "a number from 0 to 1"),
        (known.ratio, "-0.01", "a number from 0 to 1"),
        (known.duration, "soon", "a duration such as 500ms, 10s or 2m"),
        (known.duration, "36501d", "a duration of at most 36500d"),
        (known.positive_duration, "0s", "a duration above zero"),
        (known.address, "9836", "HOST:PORT, :PORT or [IPV6]:PORT"),
        (known.address, ":65536", "HOST:PORT, :PORT or [IPV6]:PORT"),
        (known.url_path, "metrics", "a path such as /metrics: /, then letters, digits and . _ - /"),
        (known.url_path, "/", "a path such as /metrics: /, then letters, digits and . _ - /"),
        (known.url_path, "/gpu metrics", "a path such as /metrics: /, then letters, digits and . _ - /"),
        (known.url_path, "/métriques", "a path such as /metrics: /, then letters, digits and . _ - /"),
        (known.url_path, "/-/mine", "a path beside /-/, /runbooks/ and /api/v1/allocations"),
        *(
            (known.http_url, text, "http://HOST:PORT or https://HOST:PORT")
            for text in ("127.0.0.1:4646", "ftp://host:1", "http://host:1/path", "http://a@host:1", "http://host:1?x")
        ),
        *(
            (known.web_address, text, "http://HOST or https://HOST")
            for text in (
                "prometheus:9090",
                "http://",
                "http://:9090",
                "http://host:0",
                "http://host:x",
                "http://[::1",
                "ftp://host",
                "http://ho st",
                "http://host/\t",
                f"http://{'a' * 64}.example",
            )
        ),
    ],
)
def test_what_is_refused_and_what_was_expected(parse: Callable[[str], Any], text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        parse(text)


def test_a_password_in_an_address_is_not_shown() -> None:
    assert known.without_password("https://ada:secret@host:1/x?y=@z") == "https://host:1/x?y=@z"
    assert known.without_password("https://host/a@b") == "https://host/a@b"
