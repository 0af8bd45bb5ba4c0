"""The checklist of a site that comes from jobstats, on a real Slurm with slurmdbd and a real Prometheus.

Mail at the end of a job, `jobstats`, `gpudash`, comments in slurmdbd and monthly mails: no part of jobstats is there.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from exporter.accounting.store import NAME, rows_after
from exporter.tools.report.accounting.collector import collect
from exporter.tools.report.accounting.database import Database
from tests.attribution_kit.slurm_cluster import LACKING, TRACKING
from tests.attribution_kit.slurm_kit import KIT, ROOT, Kit
from tests.exporter_process import exporter
from tests.stack import poll, prometheus

pytestmark = [
    pytest.mark.deep,
    pytest.mark.xdist_group("slurm"),
    pytest.mark.skipif(bool(LACKING), reason=LACKING),
]

NO_DATA = 3
WIDTH = 80
MEMORY = 1000 << 20
"""Bytes of a job: all of the node's, as with CR_Core memory is not allocated."""
TEMPLATE = "Dear @USER@,\n@REPORT@\nHelp: hpc@example.edu\n"
_MAILPROG = """\
#!/bin/sh
export GPU_EXPORTER={work}/gpu-exporter MAILPROG_COMMAND={work}/mail MAILPROG_TEMPLATE={work}/mail.txt
export GPU_EXPORTER_REPORT_SETTINGS={work}/settings
exec {kit}/mailprog "$@"
"""
_MAIL = """\
#!/bin/sh
{{ echo "$2"; cat; }} > {work}/mails/.$$ && mv {work}/mails/.$$ "{work}/mails/$3.$$"
"""


class SiteKit(Kit):
    """Mails its users, and accounts for their processes."""

    def _configure(self) -> None:
        super()._configure()
        values = {"work": self.work, "kit": KIT}
        for name, text in {"mailprog": _MAILPROG, "mail": _MAIL, "mail.txt": TEMPLATE}.items():
            (self.work / name).write_text(text.format(**values))
            (self.work / name).chmod(0o755)
        (self.work / "mails").mkdir()
        conf = self.work / "etc/slurm.conf"
        lines = [line for line in conf.read_text().splitlines() if not line.startswith(("JobAcct", "HealthCheck"))]
        own = ("JobAcctGatherType=jobacct_gather/linux", "JobAcctGatherFrequency=1", f"MailProg={self.work}/mailprog")
        conf.write_text("\n".join([*lines, *own, ""]))


@dataclass(frozen=True)
class Site:
    """A site after three jobs."""

    kit: SiteKit
    environment: Mapping[str, str]
    gpu: str
    short: str
    cpu: str

    def run(self, program: str, *arguments: str, status: int = 0) -> str:
        """Return what a program of the Slurm kit prints."""
        done = subprocess.run(
            [KIT / program, *arguments], env=self.environment, capture_output=True, text=True, check=False, cwd=ROOT
        )
        assert done.returncode == status, done.stderr
        return done.stdout

    def mail(self, to: str) -> str:
        """Return the mail to someone at the end of a job."""
        return next((self.kit.work / "mails").glob(f"{to}.*")).read_text()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder, kit = tmp_path_factory.mktemp("site"), SiteKit(TRACKING[0])
    options = (
        *("--sample.interval", "500ms", "--attribution.slurm", "on", "--state.dir", str(folder)),
        *("--attribution.slurm.mapping-dir", f"{kit.work}/gpumap", "--slurm.scontrol", str(kit.scontrol)),
        *("--attribution.slurm.gres-conf", f"{kit.work}/etc/gres.conf"),
    )
    with kit, contextlib.ExitStack() as stack:
        environment = {**os.environ, **kit.driver, "SLURMD_NODENAME": kit.node}
        running = stack.enter_context(exporter(folder, *options, environment=environment))
        config = folder / "prometheus.yml"
        static = f"{{targets: ['{running.url.removeprefix('http://')}'], labels: {{node: {kit.node}}}}}"
        config.write_text(
            f"global: {{scrape_interval: 1s}}\nscrape_configs: [{{job_name: gpu, static_configs: [{static}]}}]\n"
        )
        url = stack.enter_context(prometheus(config, folder))
        yield _after_jobs(kit, url, folder)


def _after_jobs(kit: SiteKit, url: str, folder: Path) -> Site:
    kit.run("sacctmgr", "-i", "add", "coordinator", "account=physics", "names=root")
    settings = {
        **{name: kit.environment[name] for name in ("PATH", "LD_LIBRARY_PATH", "SLURM_CONF")},
        "GPU_EXPORTER_PROMETHEUS_URL": url,
        "GPU_EXPORTER_ACCOUNTING_DATABASE": str(folder / "site.sqlite"),
    }
    (kit.work / "settings").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    # Over a minute: the grid has a column for each whole minute, which finds this job at work.
    made = (("train", 65, ("--gres=gpu:2",)), ("short", 10, ("--gres=gpu:1",)), ("cpu", 2, ()))
    batch = ("sbatch", "--parsable", "-o", "/dev/null", "-A", "physics", "--mail-type=END")
    jobs = [
        kit.run(*batch, "-J", name, f"--mail-user={name}", *options, "--wrap", f"sleep {seconds}").strip()
        for name, seconds, options in made
    ]
    poll("the mails", lambda: True if len(list((kit.work / "mails").glob("[a-z]*"))) == len(jobs) else None, 240)
    first = kit.work / f"epilog.{jobs[0]}"
    poll("the end in all stores", lambda: True if time.time() - first.stat().st_mtime > 20 else None, 120, 1)
    with contextlib.closing(Database(folder / "site.sqlite")) as database:
        collect(database, [kit.node], lambda node, seq: json.loads(rows_after(folder / NAME, node, seq)), time.time)
    environment = {**kit.commands, **settings, "GPU_EXPORTER": str(kit.work / "gpu-exporter")}
    return Site(kit, {**environment, "GPU_EXPORTER_REPORT_SETTINGS": "/nonexistent", "COLUMNS": str(WIDTH)}, *jobs)


def test_mail_at_the_end_is_the_sites_with_the_report(site: Site) -> None:
    train, cpu = site.mail("train"), site.mail("cpu")

    assert train.splitlines()[0].startswith(f"Slurm Job_id={site.gpu} Name=train Ended")
    assert f'Dear train,\nSlurm job {site.gpu} "train" of root\n' in train
    assert train.endswith("Help: hpc@example.edu\n")
    assert f"Slurm job {site.cpu} of root: no GPU\n" in cpu
    assert "COMPLETED, exit code 0:0" in cpu


def test_report_of_a_short_job_gives_no_advice(site: Site) -> None:
    shown = site.run("jobstats", site.short)

    assert "What to change" not in shown
    assert "at most 0.0 GiB" not in shown


def test_flags_of_jobstats_are_answered(site: Site) -> None:
    found = json.loads(site.run("jobstats", "-jn", site.gpu))

    assert (found["gpus"], found["name"]["job_name"], found["slurm"]["state"]) == (2, "train", "COMPLETED")
    assert len(site.run("jobstats", "-s", site.gpu).splitlines()) == 1
    assert "no GPU" in site.run("jobstats", site.cpu)
    site.run("jobstats", "-c", "elsewhere", site.gpu, status=NO_DATA)


def test_grid_of_gpus_fits_a_terminal(site: Site) -> None:
    lines = site.run("gpudash.py", "--hours", "0.05").splitlines()

    assert len(lines) == 1 + 8 + 2
    assert sum("root:" in line for line in lines) >= 2
    assert max(map(len, lines)) <= WIDTH
    assert not any("\x1b" in line for line in lines)


def test_comment_of_the_site_is_kept(site: Site) -> None:
    site.kit.run("sacctmgr", "-i", "modify", "job", "where", f"jobid={site.gpu}", "set", "AdminComment=site note")
    command = [sys.executable, "-m", "exporter", "summaries", "--state.dir", str(site.kit.work), "--settle", "1ms"]
    for _ in range(2):
        subprocess.run(command, env=site.environment, cwd=ROOT, check=True, capture_output=True)

    comments = [site.run("jobstats", "-b", job).strip() for job in (site.gpu, site.short)]
    assert comments[0].startswith("site note")
    assert len(comments[0]) > len("site note")
    if not comments[1].startswith("gpu "):  # Slurm 22.05 keeps no capital, and has a line of text
        packed = json.loads(gzip.decompress(base64.b64decode(comments[1].removeprefix("JS1:"))))
        assert packed["nodes"][site.kit.node]["total_memory"] == MEMORY


def test_monthly_mails_have_rank_and_hours(site: Site, record_property: Callable[[str, object], None]) -> None:
    shown = site.run("monthly.py", "--month", time.strftime("%Y-%m", time.gmtime()), "--dry-run", "--domain", "site")
    record_property("measured", shown)
    user, account = shown.split("To: root@site\n")[1:]

    assert user.splitlines()[1] == "Rank 1 of 1 users"
    assert account.startswith("GPU hours of account physics in ")
    assert max(map(len, account.splitlines())) <= WIDTH
