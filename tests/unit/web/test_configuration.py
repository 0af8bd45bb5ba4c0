"""The web configuration file: what each key becomes, and every complaint, word for word."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from exporter.config.option import ConfigError
from exporter.web.settings import RateLimit, WebFile, load
from exporter.web.tls import CIPHERS, CURVES, Tls

HASH = "$2y$10$" + "a" * 53
EVERYTHING = f"""
tls_server_config:
  cert_file: tls/cert.pem
  key: PEM
  client_ca_file: /etc/ca.pem
  client_auth_type: RequireAndVerifyClientCert
  client_allowed_sans: [prometheus, "10.0.0.1"]
  min_version: TLS13
  max_version: TLS13
  cipher_suites: [TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305, TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256]
  prefer_server_cipher_suites: false
  curve_preferences: [CurveP384]
http_server_config:
  http2: false
  headers: {{Content-Security-Policy: "default-src 'self'", X-Frame-Options: DENY, X-XSS-Protection: }}
basic_auth_users: {{prom: {HASH}}}
rate_limit: {{interval: 1m1.5s, burst: 3}}
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "web.yaml"
    file.write_text(text)
    return file


def test_everything_there_is(tmp_path: Path) -> None:
    assert load(written(tmp_path, EVERYTHING)) == WebFile(
        tls=Tls(
            cert=tmp_path / "tls/cert.pem",
            key="PEM",
            client_ca=Path("/etc/ca.pem"),
            client_auth=ssl.CERT_REQUIRED,
            allowed_sans=("prometheus", "10.0.0.1"),
            min_version=ssl.TLSVersion.TLSv1_3,
            max_version=ssl.TLSVersion.TLSv1_3,
            ciphers=("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
            prefer_server_ciphers=False,
            curve="secp384r1",
        ),
        users={"prom": HASH},
        headers=(("Content-Security-Policy", "default-src 'self'"), ("X-Frame-Options", "DENY")),
        rate_limit=RateLimit(61.5, 3),
    )


def test_what_is_left_out_is_as_in_prometheus(tmp_path: Path) -> None:
    found = load(written(tmp_path, "tls_server_config: {cert: A, key_file: b}\nrate_limit: {burst: 0}"))

    assert found == WebFile(
        tls=Tls(
            cert="A",
            key=tmp_path / "b",
            client_ca="",
            client_auth=ssl.CERT_NONE,
            allowed_sans=(),
            min_version=ssl.TLSVersion.TLSv1_2,
            max_version=ssl.TLSVersion.TLSv1_3,
            ciphers=(),
            prefer_server_ciphers=True,
            curve="",
        )
    )
    assert found.tls
    assert found.tls.files == (tmp_path / "b",)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1ns", 1e-9), ("2us", 2e-6), ("2µs", 2e-6), ("500ms", 0.5), ("1s", 1.0), ("1.5m", 90.0), ("1h1s", 3601.0)],
)
def test_intervals(text: str, seconds: float, tmp_path: Path) -> None:
    found = load(written(tmp_path, f"rate_limit: {{interval: {text}, burst: 1}}")).rate_limit

    assert found
    assert found.interval == pytest.approx(seconds)


AUTHORITY = "tls_server_config: {cert: a, key: b, client_ca: c"
PAIR = "tls_server_config: {cert: a, key: b"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "the file: expected a mapping, got list"),
        ("http_server_config: 1", "http_server_config: expected a mapping, got int"),
        ("http_server_config: {headers: x}", "http_server_config.headers: expected a mapping, got str"),
        (
            "{b: 1, a: 2}",
            "unknown key a: expected some of tls_server_config, http_server_config, basic_auth_users, rate_limit",
        ),
        (
            "http_server_config: {headers: {Server: x}}",
            (
                "unknown key http_server_config.headers.Server: expected some of Content-Security-Policy, "
                "Strict-Transport-Security, X-Content-Type-Options, X-Frame-Options, X-XSS-Protection"
            ),
        ),
        ("http_server_config: {http2: 1}", "http_server_config.http2: expected true or false, got 1"),
        (
            "http_server_config: {headers: {X-Frame-Options: never}}",
            "http_server_config.headers.X-Frame-Options: expected deny or sameorigin, got 'never'",
        ),
        (
            'http_server_config: {headers: {X-Frame-Options: "deny\\r"}}',
            "http_server_config.headers.X-Frame-Options: expected one line of ASCII characters",
        ),
        (
            'http_server_config: {headers: {Content-Security-Policy: "\u2603"}}',
            "http_server_config.headers.Content-Security-Policy: expected one line of ASCII characters",
        ),
        (
            'tls_server_config: {cert_file: "a\\0b", key_file: k}',
            "tls_server_config.cert_file: expected the name of a file",
        ),
        ("basic_auth_users: {ada: 1}", "basic_auth_users.ada: expected a bcrypt hash"),
        (f"basic_auth_users: {{ada: {HASH}b}}", "basic_auth_users.ada: expected a bcrypt hash"),
        (
            "rate_limit: {interval: soon}",
            "rate_limit.interval: expected a duration such as 500ms, 1s or 1m30s, got 'soon'",
        ),
        *(
            (
                f"rate_limit: {{interval: 1s{burst}}}",
                f"rate_limit.burst: expected a number from 1 on, got {shown}: with 0 no request would be answered",
            )
            for burst, shown in (("", "0"), (", burst: 0", "0"), (", burst: true", "True"), (", burst: x", "'x'"))
        ),
        (
            "tls_server_config: {cert: a}",
            "tls_server_config.key_file: tls_server_config needs key_file, or key with the PEM text",
        ),
        (
            f"{PAIR}, key_file: c}}",
            "tls_server_config.key: expected key or key_file, not both",
        ),
        (f"{PAIR}, client_ca: 1}}", "tls_server_config.client_ca: expected a text, got int"),
        (
            f"{AUTHORITY}}}",
            "tls_server_config.client_auth_type: expected RequireAndVerifyClientCert with a client CA",
        ),
        (
            f"{AUTHORITY}, client_auth_type: no}}",
            "tls_server_config.client_auth_type: expected a text, got bool",
        ),
        (
            f"{AUTHORITY}, client_auth_type: None}}",
            (
                "tls_server_config.client_auth_type: expected one of NoClientCert, RequestClientCert, "
                "VerifyClientCertIfGiven, RequireAnyClientCert, RequireAndVerifyClientCert, RequireClientCert, "
                "got 'None'"
            ),
        ),
        (
            f"{AUTHORITY}, client_auth_type: VerifyClientCertIfGiven, client_allowed_sans: [a]}}",
            "tls_server_config.client_allowed_sans: needs client_auth_type: RequireAndVerifyClientCert",
        ),
        (f"{PAIR}, client_allowed_sans: a}}", "tls_server_config.client_allowed_sans: expected a list of texts"),
        (
            f"{PAIR}, min_version: TLS13, max_version: TLS12}}",
            "tls_server_config.min_version: expected one that is not above max_version",
        ),
        (f"{PAIR}, max_version: TLS11}}", "tls_server_config.max_version: expected one of TLS12, TLS13, got 'TLS11'"),
        (
            f"{PAIR}, cipher_suites: [RC4]}}",
            "tls_server_config.cipher_suites: 'RC4' is none of Go's secure cipher suites: leave it out",
        ),
        (
            f"{PAIR}, curve_preferences: [X448]}}",
            f"tls_server_config.curve_preferences: expected one of {', '.join(CURVES)}, got 'X448'",
        ),
        (
            f"{PAIR}, curve_preferences: [X25519, CurveP256]}}",
            "tls_server_config.curve_preferences: Python's TLS can be told one curve, or all of them",
        ),
        (
            f"{PAIR}, ciphers: []}}",
            (
                "unknown key tls_server_config.ciphers: expected some of cert, cert_file, key, key_file, client_ca, "
                "client_ca_file, client_auth_type, client_allowed_sans, min_version, max_version, cipher_suites, "
                "prefer_server_cipher_suites, curve_preferences"
            ),
        ),
    ],
)
def test_complaint(text: str, says: str, tmp_path: Path) -> None:
    file = written(tmp_path, text)

    with pytest.raises(ConfigError) as raised:
        load(file)

    assert str(raised.value) == f"--web.config.file {file}: {says}"


def test_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path / "none")

    assert str(raised.value) == f"--web.config.file {tmp_path}/none: No such file or directory"


def test_every_name_of_a_cipher_and_a_curve_is_openssls() -> None:
    context = ssl.create_default_context()
    for cipher in filter(None, CIPHERS.values()):
        context.set_ciphers(cipher)
    for curve in CURVES.values():
        if curve != "X25519":  # known to TLS, not to this function
            context.set_ecdh_curve(curve)
