"""The web configuration file is read again while the exporter runs."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import bcrypt
import pytest
import requests

from exporter.config.option import ConfigError
from exporter.core.threads import Threads
from exporter.web.auth import Verdict
from exporter.web.settings import WebHealth, WebSettings, load
from exporter.web.tls import expiry
from tests.attribution_kit.nodes import until
from tests.unit.web.test_web import certificate

HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
TLS = "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"


def header(password: str) -> str:
    return requests.auth._basic_auth_str("prom", password)


def write(file: Path, content: str) -> None:
    """A time stamp of its own each time, whatever the file system's resolution is."""
    before = file.stat().st_mtime_ns if file.exists() else 0
    file.write_text(content)
    os.utime(file, ns=(before + 1_000_000_000, before + 1_000_000_000))


def test_users_added_while_running_count_from_the_next_request_on(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    write(file, "")
    settings = WebSettings(file)
    before = settings.policy().auth.check("")
    write(file, f"basic_auth_users: {{prom: {HASH}}}\n")

    assert (before, settings.policy().auth.check("")) == (Verdict.ALLOWED, Verdict.REFUSED)
    assert settings.policy().auth.check(header("secret")) is Verdict.ALLOWED


def test_password_known_to_be_right_is_forgotten_with_its_hash_only(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    write(file, f"basic_auth_users: {{prom: {HASH}}}\n")
    settings = WebSettings(file)
    settings.policy().auth.check(header("secret"))
    write(file, f"basic_auth_users: {{prom: {HASH}}}\nhttp_server_config: {{headers: {{X-Frame-Options: deny}}}}\n")
    kept = settings.policy().auth.known(header("secret"))
    write(file, f"basic_auth_users: {{prom: {bcrypt.hashpw(b'new', bcrypt.gensalt(4)).decode()}}}\n")

    assert (kept, settings.policy().auth.known(header("secret"))) == (Verdict.ALLOWED, None)
    assert settings.policy().auth.check(header("secret")) is Verdict.REFUSED


def test_files_on_a_mount_that_hangs_stay_as_they_were_and_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, back, asked, threads = tmp_path / "web.yaml", threading.Event(), list[Path](), Threads()
    certificate(tmp_path, "x")
    write(file, f"{TLS}basic_auth_users: {{prom: {HASH}}}\n")
    settings = WebSettings(file, threads)
    expiry = settings.certificates.expiry  # type: ignore[union-attr]
    settings.refresh()
    assert settings.health() == WebHealth(reload_success=True, certificate_expiry=expiry)

    def hang(files: Sequence[Path]) -> tuple[int, ...]:
        asked.extend(files)
        assert back.wait(60)
        return (len(asked),)

    monkeypatch.setattr("exporter.web.settings.file_signatures", hang)
    monkeypatch.setattr("exporter.web.tls.file_signatures", hang)
    monkeypatch.setattr("exporter.web.settings.FILES_SECONDS", 0.01)
    settings.refresh()
    settings.reload()
    assert settings.policy().auth.check(header("secret")) is Verdict.ALLOWED
    assert settings.certificates.context()  # type: ignore[union-attr]
    assert (settings.health(), asked) == (WebHealth(reload_success=False, certificate_expiry=expiry), [file])

    back.set()
    monkeypatch.setattr("exporter.web.settings.FILES_SECONDS", 60.0)
    until(lambda: not settings._reader.busy_seconds)  # type: ignore[union-attr]
    settings.refresh()
    assert settings.health() == WebHealth(reload_success=True, certificate_expiry=expiry)
    threads.stop()


@pytest.mark.parametrize(
    "broken", ["basic_auth_users: [", "{1: 2}", TLS, "[" * 100_000, "{a: 1, a: 2}", "", "basic_auth_users:"]
)
def test_file_that_cannot_be_used_changes_nothing_and_shows(tmp_path: Path, broken: str) -> None:
    file = tmp_path / "web.yaml"
    write(file, f"basic_auth_users: {{prom: {HASH}}}\n")
    settings = WebSettings(file)
    write(file, broken)

    assert settings.policy().auth.check("") is Verdict.REFUSED
    assert settings.health() == WebHealth(reload_success=False)
    write(file, f"basic_auth_users: {{other: {HASH}}}\n")
    assert settings.health() == WebHealth(reload_success=True)


@pytest.mark.parametrize(
    ("more", "less", "named"),
    [
        ("client_auth_type: RequireAndVerifyClientCert", "", "client certificates"),
        (
            "client_auth_type: RequireAndVerifyClientCert",
            "client_auth_type: VerifyClientCertIfGiven",
            "client certificates",
        ),
        (
            "client_auth_type: RequireAndVerifyClientCert, client_allowed_sans: [a]",
            "client_auth_type: RequireAndVerifyClientCert",
            "names in client certificates",
        ),
    ],
)
def test_a_file_that_is_half_written_lets_nobody_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, more: str, less: str, named: str
) -> None:
    certificate(tmp_path, "x")
    file = tmp_path / "web.yaml"
    files = "cert_file: cert.pem, key_file: key.pem"
    write(file, f"tls_server_config: {{{files}, client_ca_file: cert.pem, {more}}}\n")
    settings = WebSettings(file)
    authority = "client_ca_file: cert.pem, " if less else ""
    write(file, f"tls_server_config: {{{files}, {authority}{less}}}\n")

    assert settings.health().reload_success is False  # type: ignore[union-attr]
    assert f"{file}: {named}: switched off by a restart only" in caplog.text
    write(file, f"tls_server_config: {{{files}, client_ca_file: cert.pem, {more}}}\n")
    assert settings.health().reload_success is True  # type: ignore[union-attr]


def test_end_of_the_certificate_is_told(tmp_path: Path) -> None:
    certificate(tmp_path, "x")
    file = tmp_path / "web.yaml"
    write(file, TLS)
    settings = WebSettings(file)
    health = settings.health()

    assert health is not None
    assert health.certificate_expiry is not None
    assert 0 < health.certificate_expiry - time.time() <= 86400
    write(tmp_path / "cert.pem", "no certificate")
    broken = settings.health()
    assert broken is not None
    assert (broken.reload_success, broken.certificate_expiry) == (False, health.certificate_expiry)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{1: 2}", "unknown key 1"),
        ("basic_auth_users: {prom: $2y$notahash}", "expected a bcrypt hash"),
        ("tls_server_config: {cert_file: a, key_file: b, min_version: TLS13, max_version: TLS12}", "min_version"),
        ('http_server_config: {headers: {X-Frame-Options: "deny\\r\\nX: y"}}', "X-Frame-Options"),
        ('http_server_config: {headers: {Content-Security-Policy: "x\\r\\nX: y"}}', "expected one line"),
    ],
)
def test_what_cannot_work_is_refused_at_the_start(tmp_path: Path, content: str, expected: str) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(content)

    with pytest.raises(ConfigError, match=expected):
        load(file)


def test_headers_count_while_the_certificate_is_half_written(tmp_path: Path) -> None:
    certificate(tmp_path, "x")
    file = tmp_path / "web.yaml"
    write(file, TLS)
    settings = WebSettings(file)
    write(tmp_path / "cert.pem", "half of it")
    write(file, f"{TLS}http_server_config: {{headers: {{X-Frame-Options: deny}}}}\n")

    assert settings.policy().headers == (("X-Frame-Options", "deny"),)
    assert settings.health().reload_success is False  # type: ignore[union-attr]


@pytest.mark.parametrize("inside", ["", "MAA=", "MAI=", "not base64"])
def test_what_is_no_certificate_has_no_end(inside: str) -> None:
    assert expiry(f"-----BEGIN CERTIFICATE-----\n{inside}\n-----END CERTIFICATE-----\n") is None


def test_key_with_a_pass_phrase_is_refused_and_nobody_is_asked_for_it(tmp_path: Path) -> None:
    """Renewed while the exporter runs, the certificate in use stays; OpenSSL would wait for somebody there."""
    certificate(tmp_path, "x")
    file = tmp_path / "web.yaml"
    write(file, TLS)
    running = WebSettings(file)
    locked = ["openssl", "ec", "-in", "key.pem", "-aes256", "-passout", "pass:sesame", "-out", "locked.pem"]
    subprocess.run(locked, check=True, capture_output=True, cwd=tmp_path)
    (tmp_path / "locked.pem").replace(tmp_path / "key.pem")

    health = running.health()

    with pytest.raises(ConfigError, match=r"key\.pem: the key has a pass phrase: expected one without$"):
        WebSettings(file)
    assert health
    assert (health.reload_success, health.certificate_expiry is None) == (False, False)
