"""When a certificate ends, read from its own bytes."""

from __future__ import annotations

import ssl
from datetime import datetime, timezone

import pytest

from exporter.web.tls import expiry

SEQUENCE, UTC_TIME, GENERAL_TIME = 0x30, 0x17, 0x18


def element(tag: int, *content: bytes) -> bytes:
    inner = b"".join(content)
    size = len(inner).to_bytes(2, "big")
    return bytes([tag]) + (bytes([len(inner)]) if len(inner) < 128 else b"\x82" + size) + inner


def pem(end: bytes, form: int = UTC_TIME, *, version: bool = True) -> str:
    """As much of a certificate as is read: the fields up to its validity, and something after it."""
    validity = element(SEQUENCE, element(UTC_TIME, b"240101000000Z"), element(form, end))
    fields = (element(0x02, b"\x01"), element(SEQUENCE), element(SEQUENCE, b"x" * 200), validity, element(SEQUENCE))
    before = (element(0xA0, element(0x02, b"\x02")),) if version else ()
    return ssl.DER_cert_to_PEM_cert(element(SEQUENCE, element(SEQUENCE, *before, *fields)))


def at(year: int) -> float:
    return datetime(year, 3, 2, 1, 30, tzinfo=timezone.utc).timestamp()


@pytest.mark.parametrize("version", [True, False])
@pytest.mark.parametrize(
    ("form", "end", "year"), [(UTC_TIME, b"310302013000Z", 2031), (GENERAL_TIME, b"20510302013000Z", 2051)]
)
def test_end_is_read_in_both_forms(form: int, end: bytes, year: int, *, version: bool) -> None:
    assert expiry(pem(end, form, version=version)) == at(year)


def test_of_a_chain_the_servers_own_certificate_counts() -> None:
    assert expiry("a comment\n" + pem(b"310302013000Z") + pem(b"350302013000Z")) == at(2031)


@pytest.mark.parametrize("text", ["", "no certificate", pem(b"soon"), pem(b"310302013000Z")[:40]])
def test_what_is_none_has_no_end(text: str) -> None:
    assert expiry(text) is None
