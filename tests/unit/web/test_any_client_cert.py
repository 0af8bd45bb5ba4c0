"""`RequireAnyClientCert`: a certificate is demanded, and every one is taken whose key the client has."""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from exporter.config.option import ConfigError
from exporter.web import server
from exporter.web.settings import WebSettings, load
from exporter.web.tls import Certificates
from tests.attribution_kit.nodes import until
from tests.exporter_process import COMMAND, NO_SLURM, ROOT
from tests.stack import free_port, poll
from tests.unit.web.hostile import BODY, client, said, serving

PAIR = "cert_file: cert.pem, key_file: cert.key"
GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


EC, RSA = ("ec", "ec_paramgen_curve:P-256"), ("rsa", "rsa_keygen_bits:2048")


def certificate(folder: Path, name: str, key: Sequence[str] = EC) -> None:
    out = ("-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem"))
    names = ("-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1")
    made = ("openssl", "req", "-x509", "-newkey", key[0], "-pkeyopt", key[1], "-nodes", "-days", "1", *names, *out)
    subprocess.run(made, check=True, capture_output=True)


def expired(folder: Path, name: str) -> None:
    """Make a certificate that expired in 2020. `openssl req` cannot date one back."""
    key, subject = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(datetime(2020, 1, 1)).not_valid_after(datetime(2020, 1, 2))  # noqa: DTZ001 - UTC there
    form = serialization.PrivateFormat.TraditionalOpenSSL
    pem = serialization.Encoding.PEM
    (folder / f"{name}.pem").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(pem))
    (folder / f"{name}.key").write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The server's pair and one of a client that nobody signed."""
    certificate(tmp_path, "cert")
    certificate(tmp_path, "client")
    return tmp_path


def written(folder: Path, more: str = "", wanted: str = "RequireAnyClientCert") -> Path:
    file = folder / "web.yaml"
    file.write_text(f"tls_server_config: {{{PAIR}, client_auth_type: {wanted}{', ' + more if more else ''}}}\n")
    return file


def certificates(folder: Path, more: str = "", wanted: str = "RequireAnyClientCert") -> Certificates:
    tls = load(written(folder, more, wanted)).tls
    assert tls
    return Certificates(tls)


def own(folder: Path, name: str = "client") -> ssl.SSLContext:
    """A client's context; without a name it has no certificate."""
    made = ssl.create_default_context(cafile=str(folder / "cert.pem"))
    if name:
        made.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    return made


def scrape(port: int, context: ssl.SSLContext) -> bytes:
    with client(port) as raw, context.wrap_socket(raw, server_hostname="127.0.0.1") as wrapped:
        wrapped.sendall(GET)
        return said(wrapped)


def refused(port: int, context: ssl.SSLContext) -> bool:
    """True if the client hears nothing: in TLS 1.3 its handshake is over before the server knows."""
    try:
        return scrape(port, context) == b""
    except (ssl.SSLError, ConnectionError):
        return True


@pytest.mark.parametrize("version", ["TLS12", "TLS13"])
@pytest.mark.parametrize("wanted", ["RequireAnyClientCert", "RequireClientCert"])
def test_client_needs_a_certificate_of_any_kind(folder: Path, wanted: str, version: str) -> None:
    expired(folder, "past")
    certificate(folder, "rsa", RSA)
    more = f"min_version: {version}, max_version: {version}"
    with serving(certificates=certificates(folder, more, wanted)) as port:
        assert refused(port, own(folder, ""))
        for name in ("client", "past", "rsa"):
            assert scrape(port, own(folder, name)).endswith(BODY)


def test_certificate_of_somebody_else_is_not_enough(folder: Path) -> None:
    """A thief has the certificate, which is public, and a key of its own in the guise of the other's."""
    certificate(folder, "thief")
    real, false = (
        subprocess.run(
            ["openssl", "ec", "-in", folder / f"{name}.key", "-outform", "DER"], capture_output=True, check=True
        ).stdout
        for name in ("client", "thief")
    )
    secret = slice(7, 39)  # of RFC 5915's structure: the private number; the public point stays the client's
    assert real[secret] != false[secret]
    forged = base64.encodebytes(real[: secret.start] + false[secret] + real[secret.stop :]).decode()
    (folder / "thief.key").write_text(f"-----BEGIN EC PRIVATE KEY-----\n{forged}-----END EC PRIVATE KEY-----\n")
    (folder / "thief.pem").write_text((folder / "client.pem").read_text())
    with serving(certificates=certificates(folder)) as port:
        assert refused(port, own(folder, "thief"))
        assert scrape(port, own(folder)).endswith(BODY)


def test_connection_is_kept_and_resumed(folder: Path) -> None:
    context = own(folder)
    with serving(certificates=certificates(folder, "max_version: TLS12")) as port:
        with client(port) as raw, context.wrap_socket(raw, server_hostname="127.0.0.1") as first:
            first.sendall(GET)
            assert said(first).endswith(BODY)
            session = first.session
        with (
            client(port) as raw,
            context.wrap_socket(raw, server_hostname="127.0.0.1", session=session) as second,
        ):
            second.sendall(GET)
            assert said(second).endswith(BODY)
            assert second.session_reused
        with requests.Session() as scraper:
            scraper.trust_env, scraper.verify = False, str(folder / "cert.pem")
            scraper.cert = (str(folder / "client.pem"), str(folder / "client.key"))
            for _ in range(3):
                assert scraper.get(f"https://127.0.0.1:{port}/metrics", timeout=10).content == BODY


@pytest.mark.parametrize(
    ("more", "suites", "version", "taken"),
    [
        ("min_version: TLS13", "", ssl.TLSVersion.TLSv1_2, False),
        ("max_version: TLS12", "", ssl.TLSVersion.TLSv1_3, False),
        ("cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]", "ECDHE-ECDSA-AES256-GCM-SHA384", None, True),
        ("cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]", "ECDHE-ECDSA-AES128-GCM-SHA256", None, False),
        ("", "ECDHE-ECDSA-AES128-SHA", None, False),
    ],
)
def test_versions_and_suites_are_those_of_the_file(
    folder: Path, more: str, suites: str, version: ssl.TLSVersion | None, *, taken: bool
) -> None:
    context = own(folder)
    if suites:
        context.set_ciphers(suites)
    version = version or ssl.TLSVersion.TLSv1_2
    context.minimum_version = context.maximum_version = version
    with serving(certificates=certificates(folder, more)) as port:
        assert refused(port, context) is not taken


@pytest.mark.parametrize(("servers", "chosen"), [("true", "AES256"), ("false", "AES128")])
def test_order_of_suites_is_as_asked(folder: Path, servers: str, chosen: str) -> None:
    order = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    context = own(folder)
    context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384")
    more = f"max_version: TLS12, cipher_suites: [{order}], prefer_server_cipher_suites: {servers}"
    with (
        serving(certificates=certificates(folder, more)) as port,
        client(port) as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1") as wrapped,
    ):
        assert chosen in str(wrapped.cipher())


@pytest.mark.parametrize("version", ["TLS12", "TLS13"])
def test_curve_is_the_one_of_the_file(folder: Path, version: str) -> None:
    for name in ("cert", "client"):  # before TLS 1.3 a certificate of a curve needs that curve too
        certificate(folder, name, RSA)
    context, other = own(folder), own(folder)
    context.set_ecdh_curve("secp384r1")
    other.set_ecdh_curve("secp521r1")
    more = f"curve_preferences: [CurveP384], min_version: {version}, max_version: {version}"
    with serving(certificates=certificates(folder, more)) as port:
        assert scrape(port, context).endswith(BODY)
        assert refused(port, other)


def test_curve_that_cannot_be_set_is_refused_in_one_line(folder: Path) -> None:
    file = written(folder, "curve_preferences: [X25519]")
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert str(caught.value) == (
        f"--web.config.file {file}: tls_server_config.curve_preferences: "
        "X25519 alone cannot be set with RequireAnyClientCert"
    )


def test_names_need_a_verified_certificate(folder: Path) -> None:
    with pytest.raises(ConfigError, match="client_allowed_sans: needs client_auth_type: RequireAndVerifyClientCert"):
        load(written(folder, "client_allowed_sans: [a]"))


def test_renewed_certificate_is_served_and_a_broken_one_is_not(folder: Path) -> None:
    with serving(certificates=certificates(folder)) as port:
        assert scrape(port, own(folder)).endswith(BODY)
        before = own(folder)
        certificate(folder, "cert")
        assert refused(port, before)
        assert scrape(port, own(folder)).endswith(BODY)
        after = own(folder)
        (folder / "cert.key").write_text("half of it")
        assert scrape(port, after).endswith(BODY)


@pytest.mark.parametrize(
    ("before", "after", "taken"),
    [
        ("RequireAndVerifyClientCert", "RequireAnyClientCert", False),
        ("RequireAnyClientCert", "NoClientCert", False),
        ("RequireAnyClientCert", "VerifyClientCertIfGiven", False),
        ("RequireAnyClientCert", "RequireAndVerifyClientCert", True),
        ("NoClientCert", "RequireAnyClientCert", True),
    ],
)
def test_reload_never_asks_less_of_clients(folder: Path, before: str, after: str, *, taken: bool) -> None:
    settings = WebSettings(written(folder, wanted=before))
    written(folder, wanted=after)
    settings.reload()
    health = settings.health()
    assert health
    assert health.reload_success is taken


def test_connection_without_a_certificate_ends_once_one_is_demanded(folder: Path) -> None:
    kept = certificates(folder, wanted="NoClientCert")
    with serving(certificates=kept) as port, requests.Session() as scraper:
        scraper.trust_env, scraper.verify = False, str(folder / "cert.pem")
        assert scraper.get(f"https://127.0.0.1:{port}/metrics", timeout=10).ok
        tls = load(written(folder)).tls
        assert tls
        kept.use(tls)
        with pytest.raises(requests.ConnectionError):
            scraper.get(f"https://127.0.0.1:{port}/metrics", timeout=10)


def test_stalled_handshake_is_closed_and_others_are_served(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.5)
    with serving(certificates=certificates(folder)) as port, client(port) as silent, client(port) as half:
        half.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        assert scrape(port, own(folder)).endswith(BODY)
        assert said(silent) + said(half) == b""  # ends at the server's hand


def test_noise_is_refused_and_connections_leave_no_descriptor(folder: Path) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - as the kernel counts

    context, stranger = own(folder), own(folder, "")
    with serving(certificates=certificates(folder)) as port:
        scrape(port, context)
        before = descriptors()
        for number in range(100):
            assert refused(port, stranger)
            assert scrape(port, context).endswith(BODY)
            with client(port) as raw:
                raw.sendall(GET if number % 2 else b"\x16\x03\x01\x00\x02\xff\xff")
            with client(port) as raw, context.wrap_socket(raw, server_hostname="127.0.0.1") as wrapped:
                wrapped.sendall(GET[:20])  # and gone
        until(lambda: descriptors() <= before)


def test_flood_stays_in_the_memory_that_asyncio_counts(folder: Path) -> None:
    """Else a client that sends ahead would fill OpenSSL's memory, which has no limit."""
    context, incoming, outgoing = certificates(folder).context(), ssl.MemoryBIO(), ssl.MemoryBIO()
    stream = context.wrap_bio(incoming, outgoing, server_side=True, server_hostname=None)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    peer = own(folder).wrap_bio(there, back, server_hostname="127.0.0.1")
    for side in (peer, stream, peer, stream, peer, stream):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
        incoming.write(back.read())
        there.write(outgoing.read())
    peer.write(bytes(1 << 20))
    incoming.write(back.read())

    assert stream.read(1000) == bytes(1000)
    assert incoming.pending > (1 << 20) - (1 << 16)
    stream.write(b"x")
    assert incoming.pending > (1 << 20) - (1 << 16)


def test_without_pyopenssl_the_line_names_the_option_and_the_package(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "exporter.web.any_client_cert", raising=False)
    monkeypatch.setitem(sys.modules, "OpenSSL", None)
    file = written(folder)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert str(caught.value) == (
        f"--web.config.file {file}: tls_server_config.client_auth_type: RequireAnyClientCert needs the Python package "
        "pyOpenSSL: install gpu-exporter[any-client-cert]"
    )


def test_real_process_serves_and_reloads(folder: Path) -> None:
    port = free_port()
    options = ("--simulate", "1xT4", "--web.config.file", str(written(folder)), "--log.level", "info")
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*COMMAND, "--web.listen-address", f"127.0.0.1:{port}", *options],
            cwd=ROOT, env=NO_SLURM | os.environ, stdout=output, stderr=output,
        )  # fmt: skip

    def up() -> bool | None:
        assert process.poll() is None, log.read_text()
        try:
            return b"gpu_exporter_web_config_reload_success 1" in scrape(port, own(folder)) or None
        except ConnectionRefusedError:
            return None

    try:
        poll("the first scrape", up, 30)
        assert refused(port, own(folder, ""))
        written(folder, "max_version: TLS12")
        process.send_signal(signal.SIGHUP)
        newer = own(folder)
        newer.minimum_version = ssl.TLSVersion.TLSv1_3
        until(lambda: refused(port, newer))
        assert scrape(port, own(folder)).startswith(b"HTTP/1.1 200 OK")
        process.terminate()
        assert process.wait(20) == 0
        assert "Traceback" not in log.read_text()
    finally:
        process.kill()
        process.wait()


def test_process_without_pyopenssl_ends_with_one_line(folder: Path) -> None:
    program = "import sys; sys.modules['OpenSSL'] = None; from exporter.__main__ import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, "--simulate", "1xT4", "--web.config.file", str(written(folder))],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "client_auth_type" in line
    assert "gpu-exporter[any-client-cert]" in line
