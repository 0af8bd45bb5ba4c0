"""What an open network can do to a scrape: the slowest of many scrapes under each attack, on this machine.

Run by `make bench`. Clients and exporter share the machine's cores, so the figures are what a node with as few cores
would see; where other programs run too, the last column says how long the slowest scrape waited for a core.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import bcrypt

from tests.bench.attacks import ATTACKS, REQUEST, TRUSTING, Attack, authorization, open_to, under
from tests.exporter_process import ROOT
from tests.stack import free_port, poll

SCRAPES, PAUSE = 60, 0.05
"""The pause is in seconds."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """In milliseconds."""

    took: float
    without_core: float
    """How long the scraper, and that thread of the exporter which waited most, could have run and had no core."""


@dataclass(frozen=True, slots=True)
class Served:
    port: int
    process: subprocess.Popen[bytes]
    tls: bool

    def scrape(self) -> Scrape:
        """From connecting to the last byte."""
        before, began = self._waited(), time.perf_counter()
        with open_to(self.port) as raw, TRUSTING.wrap_socket(raw) if self.tls else raw as connection:
            connection.sendall(REQUEST % authorization("secret"))
            found = b""
            while chunk := connection.recv(1 << 18):
                found += chunk
        took = time.perf_counter() - began
        if not found.startswith(b"HTTP/1.1 200 "):
            raise OSError(found[:40].decode(errors="replace") or "nothing")
        waited = {thread: total - before.get(thread, total) for thread, total in self._waited().items()}
        own = waited.pop(Path("/proc/thread-self"))
        return Scrape(took * 1000, (own + max(waited.values())) / 1e6)

    def resident(self) -> float:
        """MiB."""
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines())
        return int(fields["VmRSS"].split()[0]) / 1024

    def _waited(self) -> Mapping[Path, int]:
        """Nanoseconds without a core so far, by thread."""
        threads = (Path("/proc/thread-self"), *Path(f"/proc/{self.process.pid}/task").iterdir())
        return {thread: int(_schedstat(thread)[1]) for thread in threads}


@contextmanager
def served(folder: Path, *, tls: bool) -> Iterator[Served]:
    port = free_port()
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(10)).decode()
    lines = [f"basic_auth_users: {{prom: {hashed}}}"]
    if tls:
        _certificate(folder)
        lines.append("tls_server_config: {cert_file: cert.pem, key_file: key.pem}")
    (folder / "web.yaml").write_text("\n".join(lines))
    options = ("--simulate", "8xH200:training", "--web.config.file", str(folder / "web.yaml"), "--log.level", "error")
    process = subprocess.Popen(
        [sys.executable, "-m", "exporter", "--web.listen-address", f"127.0.0.1:{port}", *options], cwd=ROOT
    )
    found = Served(port, process, tls)
    try:
        poll("the first scrape", lambda: _answers(found), 30)
        yield found
    finally:
        process.terminate()
        process.wait()


def _schedstat(thread: Path) -> Sequence[str]:
    """Time on a core, time without one, turns."""
    try:
        return (thread / "schedstat").read_text().split()
    except OSError:  # it has ended
        return ("0", "0", "0")


def _certificate(folder: Path) -> None:
    made = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1")
    files = ("-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem"), "-subj", "/CN=localhost")
    subprocess.run([*made, *files], check=True, capture_output=True)


def _answers(exporter: Served) -> bool | None:
    try:
        return exporter.scrape().took > 0 or None
    except OSError:
        return None


def measured(exporter: Served, attack: Attack) -> tuple[Sequence[Scrape], int]:
    """The scrapes, and how many failed."""
    scrapes, failed = [], 0
    with under(attack, exporter.port):
        time.sleep(1.0)
        for _ in range(SCRAPES):
            try:
                scrapes.append(exporter.scrape())
            except OSError:
                failed += 1
            time.sleep(PAUSE)
    return scrapes, failed


def main() -> int:
    _line("while there are", "median", "worst", "no core", "failed", "RSS", "load")
    for tls in (False, True):
        with tempfile.TemporaryDirectory() as folder, served(Path(folder), tls=tls) as exporter:
            for attack in ATTACKS:
                if attack.tls is tls:
                    _row(attack.name, exporter, *measured(exporter, attack))
    return 0


def _row(name: str, exporter: Served, scrapes: Sequence[Scrape], failed: int) -> None:
    worst = max(scrapes, key=lambda scrape: scrape.took, default=Scrape(float("nan"), 0.0))
    median = statistics.median(scrape.took for scrape in scrapes) if scrapes else float("nan")
    _line(
        name,
        f"{median:.1f} ms",
        f"{worst.took:.0f} ms",
        f"{worst.without_core:.0f} ms",
        str(failed),
        f"{exporter.resident():.1f} MiB",
        f"{os.getloadavg()[0]:.1f}",
    )


def _line(name: str, *figures: str) -> None:
    sys.stdout.write(f"{name:38} " + " ".join(f"{figure:>9}" for figure in figures) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
