"""The letter to each user of a month: exporters' rows, the accounting service, its report, and a real mail server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from exporter.accounting.store import rows_after
from exporter.core.threads import Threads
from exporter.tools.report.accounting.command import DATABASE
from exporter.web.app import App, Policy, RouteHandlers
from exporter.web.auth import BasicAuth
from exporter.web.server import Server
from tests.stack import ROOT
from tests.unit.accounting.node import Job, Node

T0 = 1_760_000_400.0
MONTH = "2025-10"
_HASH = "$2b$04$YM27EtVXYw3q6FyvZ8MwouIAEZB8ADmIXWPXbuPhVZa4I3mZXOczK"
"""Of `secret`."""
_JOBS = (
    Job("1", T0 + 600, T0 + 4200, ("GPU-0", "GPU-1")),
    Job("2", T0 + 600, T0 + 6000, ("GPU-2",), user="bob", state="allocated_idle"),
)
"""ada computes for 2 GPU hours. bob leaves a GPU idle for 1.5."""
LETTERS = {
    "ada": ("GPU hours of ada in 2025-10: 2.0", "Cost: 6.00 EUR, wasted: 0.00 EUR"),
    "bob": ("GPU hours of bob in 2025-10: 1.5", "Used by kernels: 0.0 h. Wasted: 1.5 h"),
    "carol": ("GPU hours of account vision in 2025-10: 3.5",),
}
"""Lines of each letter. carol coordinates the account."""
_PRICES = "currency: EUR\nprices:\n  - {model: NVIDIA H100, per_gpu_hour: 3}\n"
_MAIL = """\
#!{python}
import email.message, smtplib, sys
letter = email.message.EmailMessage()
letter["Subject"], letter["To"], letter["From"] = sys.argv[2], sys.argv[3], "gpu@example.org"
letter.set_content(sys.stdin.read())
with smtplib.SMTP("127.0.0.1", {smtp}) as server:
    server.send_message(letter)
"""


def send(folder: Path, smtp: int) -> None:
    """Send the letters of the month. The service reads the node once; mail(1) is a program that speaks SMTP."""
    programs = {
        "mail": _MAIL.format(python=Path(sys.executable).resolve(), smtp=smtp),
        "sacctmgr": "#!/bin/sh\necho 'vision|carol'\n",
    }
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "prices.yaml").write_text(_PRICES)
    (folder / "password").write_text("secret")
    installed = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{folder}:{installed}:{os.environ['PATH']}",
        "GPU_EXPORTER_ACCOUNTING_DATABASE": str(folder / DATABASE),
        "GPU_EXPORTER_PRICES_FILE": str(folder / "prices.yaml"),
    }
    node = Node(folder / "gpu01.sqlite", _JOBS, T0, all_gpus=("GPU-0", "GPU-1", "GPU-2"))
    while node.now < T0 + 7200:
        node.cycle(10)
    node.restart()
    pages = RouteHandlers(
        lambda _: ("", b""), str, str, allocations=lambda after: rows_after(node.path, "gpu01", after)
    )
    server = Server(
        App(pages, "/metrics", lambda: Policy(BasicAuth({"prometheus": _HASH}))), ("127.0.0.1", 0), 2, threads=Threads()
    )
    server.start()
    service = (
        *("gpu-exporter", "accounting", "--interval", "0", "--nodes", f"http://127.0.0.1:{server.port}"),
        *("--username", "prometheus", "--password-file", str(folder / "password"), "--state.dir", str(folder)),
    )
    monthly = (sys.executable, str(ROOT / "deploy/slurm/monthly.py"), "--month", MONTH, "--domain", "example.org")
    try:
        for command in (service, monthly):
            subprocess.run(command, env=environment, check=True, timeout=120)
    finally:
        server.stop()
        node.close()
