"""The table of owners: names of all sorts reach their address, a wrong table changes nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from deploy.alertmanager.owners import OwnersError, read, template
from tests.contract.alertmanager.example import EXAMPLE, alert, local
from tests.contract.alertmanager.test_messages import MailServer, mail, post
from tests.stack import alertmanager

__all__ = ["mail"]
PROGRAM = EXAMPLE / "owners.py"
TABLE = r"""user,CORP\ada,ada@example.org
user,CORP\user,user@example.org
user,"bob",{name}@example.org
user,zoë🙂,zoe@example.org
user,*,{name}@example.net
"""


def owners(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, PROGRAM, *arguments], capture_output=True, text=True, check=False)


def test_names_of_all_sorts_reach_their_addresses(tmp_path: Path, mail: tuple[MailServer, int]) -> None:
    server, port = mail
    config = yaml.safe_load(local(tmp_path, "http://127.0.0.1:9", f"127.0.0.1:{port}").read_text())
    made = tmp_path / "owners.tmpl"
    made.write_text(template(read(TABLE.splitlines())), encoding="utf-8")
    config["templates"] = [str(EXAMPLE / "gpu.tmpl"), str(made)]
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump(config))

    with alertmanager(file, tmp_path) as url:
        for user in (r"CORP\ada", r"CORP\user", "bob", "zoë🙂", "eve"):
            post(
                url,
                alert("GpuAllocatedIdle", severity="warning", audience="owner", user=user, workload=f"slurm:{user}"),
            )
        for address in ("ada@example.org", "user@example.org", "bob@example.org", "zoe@example.org", "eve@example.net"):
            assert server.to(address)


def test_table_that_a_spreadsheet_wrote_is_read(tmp_path: Path) -> None:
    table = tmp_path / "owners.csv"
    table.write_bytes("\ufeffuser,ada,ada@example.org\r\n".encode())

    assert "ada@example.org" in owners(table).stdout


@pytest.mark.parametrize("target", ["{user}@example.org", "{{.X}}@example.org", "{name", "ada}"])
def test_braces_that_stand_for_nothing_are_refused(target: str) -> None:
    with pytest.raises(OwnersError, match="line 1"):
        read([f"user,ada,{target}"])


@pytest.mark.parametrize(
    "table", [b"user,ada", b"user,ada,\xff", b"user,ada," + b"a" * 200_000], ids=["short", "encoding", "long"]
)
def test_wrong_table_leaves_the_template_in_use_as_it_is(table: bytes, tmp_path: Path) -> None:
    source, made = tmp_path / "owners.csv", tmp_path / "owners.tmpl"
    source.write_text(TABLE, encoding="utf-8")
    assert owners(source, made).returncode == 0
    before = made.read_text()
    assert before == template(read(TABLE.splitlines()))

    source.write_bytes(table)
    done = owners(source, made)

    assert (done.returncode, made.read_text()) == (2, before)
    assert len(done.stderr.splitlines()) == 1
    assert names(tmp_path) == ["owners.csv", "owners.tmpl"]


def names(folder: Path) -> Sequence[str]:
    return sorted(path.name for path in folder.iterdir())
