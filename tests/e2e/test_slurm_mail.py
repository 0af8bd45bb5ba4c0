"""The mail that a real Slurm sends at the end of a job, by the kit's MailProg, on a node without the package.

Slurm fails the jobs of a node whose `Prolog=FOLDER/*` finds no script, so such a node has the kit's hooks too.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.attribution_kit.nodes import until
from tests.attribution_kit.slurm_cluster import KIT, LACKING, SlurmCluster

pytestmark = [pytest.mark.xdist_group("slurm"), pytest.mark.skipif(bool(LACKING), reason=LACKING)]

_MAILPROG = """\
#!/bin/sh
export GPU_EXPORTER={work}/report MAILPROG_COMMAND={work}/mail MAILPROG_TEMPLATE={work}/none
export GPU_EXPORTER_REPORT_SETTINGS={work}/none
exec {kit}/mailprog "$@"
"""


class _Cluster(SlurmCluster):
    """Sends mail. Its prolog is the hook that the documentation has copied to each node."""

    def _configure(self) -> None:
        super()._configure()
        scripts = {
            "mailprog": _MAILPROG.format(work=self.work, kit=KIT),
            "report": '#!/bin/sh\necho "GPU report of job $2"\n',
            "mail": f'#!/bin/sh\n{{ echo "$2"; echo "to $3"; cat; }} > {self.work}/mails/.$$\n'
            f"mv {self.work}/mails/.$$ {self.work}/mails/$$\n",
        }
        for name, text in scripts.items():
            (self.work / name).write_text(text)
            (self.work / name).chmod(0o755)
        (self.work / "mails").mkdir()
        shutil.copytree(KIT / "prolog.d", self.work / "prolog.d")
        conf = self.work / "etc/slurm.conf"
        text = conf.read_text().replace(f"Prolog={self.work}/etc/prolog.sh", f"Prolog={self.work}/prolog.d/*")
        conf.write_text(f"{text}MailProg={self.work}/mailprog\n")


@pytest.fixture(scope="module")
def cluster() -> Iterator[_Cluster]:
    with _Cluster("linuxproc") as started:
        yield started


def _mails(cluster: _Cluster) -> list[str]:
    return [file.read_text() for file in (cluster.work / "mails").glob("[0-9]*")]


def test_mail_at_the_end_of_a_job_has_its_report(cluster: _Cluster) -> None:
    job = cluster.run(
        "sbatch", "--parsable", "-o", "/dev/null", "-J", "train", "--mail-type=BEGIN,END", "--mail-user=alice@site",
        "--wrap", "true",
    ).strip()  # fmt: skip
    until(lambda: len(_mails(cluster)) == 2)
    begin, end = sorted(_mails(cluster), key=len)

    assert begin.splitlines()[1:] == ["to alice@site"]
    assert "drain" not in cluster.run("sinfo", "-h", "-o", "%T")
    assert "Ended" in end.splitlines()[0]
    assert end.splitlines()[1:] == ["to alice@site", f"GPU report of job {job}"]
