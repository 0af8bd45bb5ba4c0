# ruff: noqa: E501 - a table
"""exporter-toolkit's keys and sample files, by their names there, with what becomes of each here.

The contents are written anew; what each sample tries is the toolkit's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FILES = "cert_file: cert.pem, key_file: key.pem"
SUITES = (
    "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
)  # fmt: skip
"""What Go's tls.CipherSuites() lists."""


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    content: str
    refused: str = ""
    """A part of the line that refuses it; empty where it is taken."""


def tls(more: str = "") -> str:
    return f"tls_server_config: {{{FILES}{', ' + more if more else ''}}}"


CA = "client_ca_file: cert.pem"
VERIFIED = f"{CA}, client_auth_type: RequireAndVerifyClientCert"
USERS = "basic_auth_users: {alice: $2y$12$1DpfPeqF9HzHJt.EWswy1exHluGfbhnn3yXhR7Xes6m3WJqFg0Wby}"

SAMPLES: Sequence[Sample] = (
    Sample("web-config.yml", tls() + "\n" + USERS),
    Sample("noAuth.good", tls()),
    Sample("noAuth_allCiphers.good", tls(f"cipher_suites: [{', '.join(SUITES)}]")),
    Sample("noAuth_someCiphers.good", tls("cipher_suites: [TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384], max_version: TLS12")),
    Sample(
        "noAuth_someCiphers_noOrder.good",
        tls("cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256], prefer_server_cipher_suites: false"),
    ),
    Sample("noAuth_inventedCiphers.bad", tls("cipher_suites: [TLS_RSA_WITH_RABBIT]"), "cipher_suites: 'TLS_RSA_WITH_RABBIT'"),
    Sample("noAuth_oneCurve", tls("curve_preferences: [CurveP256]")),
    Sample("noAuth_someCurves.good", tls("curve_preferences: [CurveP521], min_version: TLS13")),
    Sample("noAuth_twoCurves", tls("curve_preferences: [CurveP521, X25519]"), "one curve, or all of them"),
    Sample("noAuth_allCurves.good", tls("curve_preferences: [CurveP256, CurveP384, CurveP521, X25519]")),
    Sample("noAuth_inventedCurves.bad", tls("curve_preferences: [CurveP257]"), "curve_preferences: expected one of"),
    Sample("noAuth_wrongTLSVersion.bad", tls("min_version: TLS111"), "min_version: expected one of TLS12, TLS13"),
    Sample("noAuth_oldTLSVersion", tls("min_version: TLS10"), "min_version: expected one of TLS12, TLS13"),
    Sample("noAuth_noHTTP2.good", tls() + "\nhttp_server_config: {http2: false}"),
    Sample("noAuth_HTTP2", tls() + "\nhttp_server_config: {http2: true}"),
    Sample("noAuth_certPath_empty.bad", "tls_server_config: {cert_file: '', key_file: key.pem}", "needs cert_file"),
    Sample("noAuth_cert_empty.bad", "tls_server_config: {cert: '', key_file: key.pem}", "needs cert_file, or cert"),
    Sample("noAuth_keyPath_empty.bad", "tls_server_config: {cert_file: cert.pem, key_file: ''}", "needs key_file"),
    Sample("noAuth_key_empty.bad", "tls_server_config: {cert_file: cert.pem, key: ''}", "needs key_file, or key"),
    Sample("noAuth_certPath_keyPath_empty.bad", "tls_server_config: {cert_file: '', key_file: ''}", "needs cert_file"),
    Sample("auth_clientCAs_invalid.bad", tls("client_ca_file: nowhere, client_auth_type: RequireAndVerifyClientCert"), "nowhere: No such file"),
    Sample("noAuth.bad (a client CA, and nobody asked for a certificate)", tls(CA), "expected RequireAndVerifyClientCert"),
    Sample("noAuth.requireanyclientcert.good", tls("client_auth_type: RequireAnyClientCert")),
    Sample("noAuth.requireanyclientcert.good (its old name)", tls("client_auth_type: RequireClientCert")),
    Sample("noAuth.requestclientcert.good", tls("client_auth_type: RequestClientCert")),
    Sample("noAuth.good (the authorities of the system)", tls("client_auth_type: VerifyClientCertIfGiven")),
    Sample("noAuth.good.blocking", tls("client_auth_type: RequireAndVerifyClientCert")),
    Sample("noAuth.requireandverifyclientcert.good", tls(VERIFIED)),
    Sample("noAuth.verifyclientcertifgiven", tls(f"{CA}, client_auth_type: VerifyClientCertIfGiven")),
    Sample("auth_client_type.bad", tls("client_auth_type: Always"), "client_auth_type: expected one of"),
    Sample("auth_client_san.good", tls(f"{VERIFIED}, client_allowed_sans: [test.example.org]")),
    Sample("auth_client_san_no_client_auth.bad", tls("client_allowed_sans: [a]"), "client_allowed_sans: needs"),
    Sample(
        "auth_client_san_optional_cert.bad",
        tls(f"{CA}, client_auth_type: VerifyClientCertIfGiven, client_allowed_sans: [a]"),
        "client_allowed_sans: needs",
    ),
    Sample("users.good", tls() + "\n" + USERS),
    Sample("users_noTLS.good", USERS),
    Sample("auth_user_list_invalid.bad", "basic_auth_users: [john, doe]", "basic_auth_users: expected a mapping"),
    Sample("headers.good", "http_server_config: {headers: {X-Frame-Options: deny, X-Content-Type-Options: nosniff, "
           "X-XSS-Protection: '1', Strict-Transport-Security: max-age=1, Content-Security-Policy: default-src 'self'}}"),
    Sample("headers_blank", "http_server_config: {headers: {X-Frame-Options: ''}}"),
    Sample("headers_content_type_options.bad", "http_server_config: {headers: {X-Content-Type-Options: sniff}}", "expected nosniff"),
    Sample("headers_frame_options.bad", "http_server_config: {headers: {X-Frame-Options: maybe}}", "expected deny or sameorigin"),
    Sample("headers_extra_header.bad", "http_server_config: {headers: {Server: mine}}", "unknown key http_server_config.headers.Server"),
    Sample("junk_key", "hhh: 1", "unknown key hhh"),
    Sample("empty", ""),
    Sample("rate_limiter_one_second", "rate_limit: {interval: 1s, burst: 1}"),
    Sample("rate_limiter_nonblocking", "rate_limit: {interval: 0, burst: 0}"),
    Sample("rate_limiter_go_duration", "rate_limit: {interval: 1m30s, burst: 20}"),
    Sample("rate_limiter_no_burst", "rate_limit: {interval: 1s}", "with 0 no request would be answered"),
    Sample("rate_limiter_bad_interval", "rate_limit: {interval: soon, burst: 1}", "rate_limit.interval: expected a duration"),
)  # fmt: skip
KEYS = (
    "tls_server_config", "cert", "key", "client_ca", "cert_file", "key_file", "client_auth_type", "client_ca_file",
    "client_allowed_sans", "min_version", "max_version", "cipher_suites", "prefer_server_cipher_suites",
    "curve_preferences", "http_server_config", "http2", "headers", "basic_auth_users", "rate_limit", "interval", "burst",
)  # fmt: skip
"""Every key of docs/web-configuration.md of the toolkit."""
