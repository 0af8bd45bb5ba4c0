"""What a connection is offered: what the configuration file asks for, and nothing kept open for it."""

from __future__ import annotations

import os
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.web.tls import Tls, context

_SUITE = "ECDHE-RSA-AES256-GCM-SHA384"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    from tests.unit.web.test_web import certificate  # noqa: PLC0415 - only where TLS is tested

    folder = tmp_path_factory.mktemp("keys")
    certificate(folder, "x")
    return Tls(folder / "cert.pem", folder / "key.pem")


def test_only_the_suites_that_were_asked_for_are_offered_before_tls_1_3(tls: Tls) -> None:
    offered = context(replace(tls, ciphers=(_SUITE,))).get_ciphers()

    assert [each["name"] for each in offered if each["protocol"] != "TLSv1.3"] == [_SUITE]


def test_suites_by_default_are_forward_secret_and_authenticated_on_every_system(tls: Tls) -> None:
    """As Go prefers them. A system's Python may offer RSA key exchange and CBC, as that of Ubuntu 24.04 does."""
    offered = [each["name"] for each in context(tls).get_ciphers() if each["protocol"] != "TLSv1.3"]

    assert sorted(offered) == sorted(
        f"ECDHE-{key}-{cipher}"
        for key in ("ECDSA", "RSA")
        for cipher in ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305")
    )


@pytest.mark.parametrize("servers", [True, False])
def test_whose_order_of_suites_counts_is_as_asked(tls: Tls, *, servers: bool) -> None:
    made = context(replace(tls, prefer_server_ciphers=servers))

    assert bool(made.options & ssl.OP_CIPHER_SERVER_PREFERENCE) is servers


def test_versions_are_those_that_were_asked_for(tls: Tls) -> None:
    only = ssl.TLSVersion.TLSv1_3
    made = context(replace(tls, min_version=only, max_version=only))

    assert (made.minimum_version, made.maximum_version) == (only, only)
    assert context(tls).minimum_version is ssl.TLSVersion.TLSv1_2


def test_texts_of_the_file_leave_no_memory_open(tls: Tls) -> None:
    """They are read again at each change of the file, for months."""
    assert isinstance(tls.cert, Path)
    assert isinstance(tls.key, Path)
    texts = replace(tls, cert=tls.cert.read_text(), key=tls.key.read_text())
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - as the kernel counts
    context(texts)

    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - the same
