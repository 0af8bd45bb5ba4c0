"""The web configuration file of Prometheus exporters: every key and sample is taken, or refused with a reason."""

from __future__ import annotations

import contextlib
import ssl
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import requests
import yaml

from exporter.config.option import ConfigError
from exporter.web.app import App, RouteHandlers
from exporter.web.server import Server
from exporter.web.settings import RateLimit, WebFile, load
from exporter.web.tls import CIPHERS, Certificates, context
from tests.contract.web.toolkit import KEYS, SAMPLES, SUITES, Sample

PAGE = Path(__file__).resolve().parents[3] / "docs/web-configuration.md"


def certificate(folder: Path, name: str, san: str) -> None:
    command = (
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "1",
    )
    subject = ("-subj", f"/CN={name}", "-addext", f"subjectAltName={san}")
    out = ("-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem"))
    subprocess.run([*command, *subject, *out], check=True, capture_output=True)


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with cert.pem and key.pem of 127.0.0.1, and of a client."""
    folder = tmp_path_factory.mktemp("keys")
    certificate(folder, "cert", "IP:127.0.0.1")
    (folder / "cert.key").rename(folder / "key.pem")
    certificate(folder, "client", "DNS:prometheus.example.org,URI:spiffe://x/y")
    return folder


def loaded(keys: Path, content: str) -> WebFile:
    file = keys / "web.yaml"
    file.write_text(content)
    web = load(file)
    if web.tls:
        context(web.tls)
    return web


@pytest.mark.parametrize("sample", [pytest.param(sample, id=sample.name) for sample in SAMPLES])
def test_a_sample_is_taken_or_refused_with_one_line(keys: Path, sample: Sample) -> None:
    if not sample.refused:
        loaded(keys, sample.content)
        return
    with pytest.raises(ConfigError) as caught:
        loaded(keys, sample.content)
    assert sample.refused in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_suite_of_go_has_its_name_here() -> None:
    assert set(SUITES) <= set(CIPHERS)


def test_every_key_of_the_toolkit_is_documented() -> None:
    page = PAGE.read_text()
    assert [key for key in KEYS if f"`{key}`" not in page] == []


def test_ciphers_curve_and_order_reach_the_tls_library(keys: Path) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    chosen = f"cipher_suites: [{suite}], prefer_server_cipher_suites: false, min_version: TLS12, max_version: TLS12"
    tls = loaded(keys, f"tls_server_config: {{cert_file: cert.pem, key_file: key.pem, {chosen}}}").tls
    assert tls is not None
    made = context(tls)
    names = {str(cipher["name"]) for cipher in made.get_ciphers() if cipher["protocol"] != "TLSv1.3"}
    assert names == {"ECDHE-ECDSA-AES256-GCM-SHA384"}
    assert not made.options & ssl.OP_CIPHER_SERVER_PREFERENCE
    assert made.maximum_version == ssl.TLSVersion.TLSv1_2


def serve(certificates: Certificates) -> Server:
    pages = RouteHandlers(metrics=lambda _: ("text/plain", b"up 1\n"), status=lambda: "", ready=lambda: "")
    server = Server(App(pages, "/metrics"), ("127.0.0.1", 0), 2, certificates)
    server.start()
    return server


def certified(keys: Path, section: dict[str, object]) -> Certificates:
    web = loaded(keys, yaml.safe_dump({"tls_server_config": section}))
    assert web.tls
    return Certificates(web.tls)


def ask(server: Server, keys: Path, client: Sequence[str]) -> int:
    cert = (str(keys / client[0]), str(keys / client[1])) if client else None
    url = f"https://127.0.0.1:{server.port}/metrics"
    return requests.get(url, verify=str(keys / "cert.pem"), cert=cert, timeout=5).status_code


def test_certificate_and_key_may_stand_in_the_file_itself(keys: Path) -> None:
    inline: dict[str, object] = {"cert": (keys / "cert.pem").read_text(), "key": (keys / "key.pem").read_text()}
    server = serve(certified(keys, inline))
    try:
        assert ask(server, keys, ()) == 200
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("client_auth_type", "client", "taken"),
    [
        ("RequestClientCert", (), True),
        ("RequestClientCert", ("client.pem", "client.key"), True),
        ("VerifyClientCertIfGiven", (), True),
        ("VerifyClientCertIfGiven", ("client.pem", "client.key"), False),
        ("RequireAndVerifyClientCert", (), False),
        ("RequireAndVerifyClientCert", ("client.pem", "client.key"), False),
    ],
)
def test_client_certificate_without_a_ca_is_verified_by_the_system(
    keys: Path, client_auth_type: str, client: Sequence[str], *, taken: bool
) -> None:
    server = serve(
        certified(keys, {"cert_file": "cert.pem", "key_file": "key.pem", "client_auth_type": client_auth_type})
    )
    try:
        with contextlib.nullcontext() if taken else pytest.raises(requests.ConnectionError):
            assert ask(server, keys, client) == 200
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("allowed", "taken"), [("prometheus.example.org", True), ("spiffe://x/y", True), ("other.example.org", False)]
)
def test_a_client_must_have_an_allowed_name(keys: Path, allowed: str, taken: bool) -> None:  # noqa: FBT001 - of the table
    more = {
        "client_ca": (keys / "client.pem").read_text(),
        "client_auth_type": "RequireAndVerifyClientCert",
        "client_allowed_sans": [allowed],
    }
    section: dict[str, object] = {"cert_file": "cert.pem", "key_file": "key.pem", **more}
    server = serve(certified(keys, section))
    try:
        if taken:
            assert ask(server, keys, ("client.pem", "client.key")) == 200
        else:
            with pytest.raises(requests.ConnectionError):
                ask(server, keys, ("client.pem", "client.key"))
        with pytest.raises(requests.ConnectionError):
            ask(server, keys, ())
    finally:
        server.stop()


@pytest.mark.parametrize("change", [{"client_allowed_sans": ["other.example.org"]}, {"client_ca_file": "cert.pem"}])
def test_connection_lasts_no_longer_than_what_its_client_had_to_prove(keys: Path, change: dict[str, object]) -> None:
    """A scraper keeps its connection: one whose name is taken out would be served for as long as it asks."""
    section: dict[str, object] = {
        "cert_file": "cert.pem",
        "key_file": "key.pem",
        "client_ca_file": "client.pem",
        "client_auth_type": "RequireAndVerifyClientCert",
        "client_allowed_sans": ["prometheus.example.org"],
    }
    first, same, other = (
        loaded(keys, yaml.safe_dump({"tls_server_config": {**section, **more}})).tls
        for more in ({}, {"min_version": "TLS13"}, change)
    )
    assert first
    assert same
    assert other
    certificates = Certificates(first)
    server = serve(certificates)
    url = f"https://127.0.0.1:{server.port}/metrics"
    try:
        with requests.Session() as scraper:
            scraper.trust_env, scraper.verify = False, str(keys / "cert.pem")
            scraper.cert = (str(keys / "client.pem"), str(keys / "client.key"))
            assert scraper.get(url, timeout=5).status_code == 200
            certificates.use(same)
            assert scraper.get(url, timeout=5).status_code == 200
            certificates.use(other)
            with pytest.raises(requests.ConnectionError):
                scraper.get(url, timeout=5)
    finally:
        server.stop()


def test_a_go_duration_is_the_sum_of_its_parts(keys: Path) -> None:
    assert loaded(keys, "rate_limit: {interval: 1m30s, burst: 20}").rate_limit == RateLimit(90.0, 20)
    assert loaded(keys, "rate_limit: {interval: 500ms, burst: 1}").rate_limit == RateLimit(0.5, 1)
