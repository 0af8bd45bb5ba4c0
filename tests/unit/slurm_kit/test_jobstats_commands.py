"""Commands for a site that comes from jobstats: `jobstats JOBID`, and the MailProg of slurm.conf."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

KIT = Path(__file__).resolve().parents[3] / "deploy/slurm"


def _script(folder: Path, name: str, body: str) -> str:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return str(file)


def _run(folder: Path, program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    own: Mapping[str, str] = {
        "GPU_EXPORTER": str(folder / "gpu-exporter"),
        "GPU_EXPORTER_REPORT_SETTINGS": str(folder / "settings"),
        "MAILPROG_COMMAND": str(folder / "mail"),
        "MAILPROG_TEMPLATE": str(folder / "mail.txt"),
        "PATH": f"{folder}:{os.environ['PATH']}",
        "SEFF": str(folder / "seff"),
    }
    return subprocess.run(
        [KIT / program, *arguments], env={**os.environ, **own, **environment}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "asked"),
    [
        ((), "report 4711 --format text"),
        (("-j",), "report 4711 --format json"),
        (("--json", "-c", "della"), "report 4711 --format json --cluster della"),
        (("-s", "--force", "-d"), "report 4711 --format short"),
        (("-p", "http://p:9090"), "report 4711 --format text --prometheus.url http://p:9090"),
        (("--cluster=della",), "report 4711 --format text --cluster della"),
        (("-jncdella",), "report 4711 --format json --cluster della"),
        (("--no-c", "--sim"), "report 4711 --format short"),
    ],
)
def test_flags_of_jobstats_are_those_of_report(tmp_path: Path, flags: tuple[str, ...], asked: str) -> None:
    _script(tmp_path, "gpu-exporter", 'echo "$*"')
    for arguments in ((*flags, "4711"), ("4711", *flags)):
        done = _run(tmp_path, "jobstats", *arguments)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{asked}\n", "")


def test_prometheus_comes_from_the_settings_and_the_environment_wins(tmp_path: Path) -> None:
    _script(tmp_path, "gpu-exporter", "echo $GPU_EXPORTER_PROMETHEUS_URL $NO_COLOR")
    (tmp_path / "settings").write_text("GPU_EXPORTER_PROMETHEUS_URL=http://site:9090\n")

    assert _run(tmp_path, "jobstats", "-n", "1").stdout == "http://site:9090 1\n"
    own = _run(tmp_path, "jobstats", "1", GPU_EXPORTER_PROMETHEUS_URL="http://mine:9090")
    assert own.stdout.split() == ["http://mine:9090"]


def test_base64_is_the_comment_in_slurmdbd(tmp_path: Path) -> None:
    _script(tmp_path, "sacct", 'echo "$*"')

    assert _run(tmp_path, "jobstats", "-b", "7").stdout == "-n -X -P -j 7 -o AdminComment\n"


@pytest.mark.parametrize("arguments", [(), ("1", "2"), ("--what", "1"), ("1", "-c")])
def test_wrong_use_is_answered_by_the_flags(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = _run(tmp_path, "jobstats", *arguments)

    assert done.returncode == 2
    assert "--prom-server URL" in done.stderr


ENDED = ("-s", "Slurm Job_id=7 Name=train Ended, Run time 00:10:00, COMPLETED, ExitCode 0", "alice")


def _mail(folder: Path, *arguments: str, **environment: str) -> list[str]:
    """Subject, recipient and lines of the mail."""
    _script(folder, "mail", f'{{ echo "$2"; echo "$3"; cat; }} > {folder}/sent')
    done = _run(folder, "mailprog", *arguments, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    return (folder / "sent").read_text().splitlines()


@pytest.mark.parametrize("environment", [{"SLURM_JOB_ID": "7"}, {}])
def test_mail_of_an_ended_job_has_its_report(tmp_path: Path, environment: Mapping[str, str]) -> None:
    _script(tmp_path, "gpu-exporter", "[ \"$*\" = 'report 7' ] && cat <<'X'\nGPU 50 % used & more\n\\\\1\nX")

    assert _mail(tmp_path, *ENDED, **environment) == [ENDED[1], "alice", "GPU 50 % used & more", "\\\\1"]


@pytest.mark.parametrize(("named", "asked"), [("5_* (5)", "5"), ("5_3 (8)", "5_3"), ("5", "5")])
def test_mail_of_an_array_has_the_report_of_the_array(tmp_path: Path, named: str, asked: str) -> None:
    _script(tmp_path, "gpu-exporter", 'echo "$*"')
    subject = f"Slurm Array Summary Job_id={named} Name=train Ended, COMPLETED, ExitCode [0-0]"

    assert _mail(tmp_path, "-s", subject, "alice", SLURM_JOB_ID="")[2:] == [f"report {asked}"]


def test_text_is_the_sites_and_values_are_put_in_as_they_are(tmp_path: Path) -> None:
    _script(tmp_path, "gpu-exporter", "cat <<'X'\n@JOB@ $(id) & \\\\1\nX")
    (tmp_path / "mail.txt").write_text("Dear @USER@,\nyour job @JOB@ has ended.\n@REPORT@\nHelp: hpc@site\n")

    assert _mail(tmp_path, *ENDED, SLURM_JOB_ID="7")[2:] == [
        *("Dear alice,", "your job 7 has ended.", "@JOB@ $(id) & \\\\1", "Help: hpc@site"),
    ]


def test_seff_is_the_report_where_there_is_none(tmp_path: Path) -> None:
    _script(tmp_path, "gpu-exporter", "echo no >&2; exit 4")
    _script(tmp_path, "seff", 'echo "seff $1"')

    assert _mail(tmp_path, *ENDED)[2:] == ["seff 7"]


def test_mail_is_sent_without_any_report(tmp_path: Path) -> None:
    _script(tmp_path, "gpu-exporter", "exit 4")
    _script(tmp_path, "seff", "exit 1")

    assert _mail(tmp_path, *ENDED) == [ENDED[1], "alice"]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ("Failed, Run time 00:00:09, OUT_OF_MEMORY", ["report"]),
        ("Requeued, Run time 00:00:09", ["report"]),
        ("Reached time limit, Run time 00:01:00", ["report"]),
        ("Reached 80% of time limit, Run time 00:00:48", []),
        ("Began, Queued time 00:00:01", []),
        ("Invalid dependency, Run time 00:00:00", []),
    ],
)
def test_mail_has_a_report_where_slurmctld_says_that_the_job_has_run(
    tmp_path: Path, event: str, expected: list[str]
) -> None:
    _script(tmp_path, "gpu-exporter", "echo report")

    assert _mail(tmp_path, "-s", f"Slurm Job_id=7 Name=Ended {event}", "alice")[2:] == expected


@pytest.mark.parametrize(
    "recipient",
    [
        *("--exec=id", "-Xid", "-a/etc/slurm/slurmdbd.conf", "|id", "/srv/x", "+folder", "%root", "a`id`", "a b"),
        *("alice,|id", "alice,/srv/x", "alice,-Xid", "alice\n|id", ""),
    ],
)
def test_recipient_that_is_no_address_gets_no_mail(tmp_path: Path, recipient: str) -> None:
    """`--mail-user` is the user's text: to programs named mail some are options, commands or files."""
    _script(tmp_path, "mail", f"touch {tmp_path}/sent")

    assert _run(tmp_path, "mailprog", *ENDED[:2], recipient).returncode == 0
    assert not (tmp_path / "sent").exists()


@pytest.mark.parametrize("recipient", ["alice", "ada.b+tag@x-y.org", "a@x.org,b=c@y.org"])
def test_recipient_that_is_an_address_gets_mail(tmp_path: Path, recipient: str) -> None:
    _script(tmp_path, "gpu-exporter", "echo report")

    assert _mail(tmp_path, *ENDED[:2], recipient)[1:] == [recipient, "report"]


def test_name_of_a_job_adds_neither_a_header_nor_a_command(tmp_path: Path) -> None:
    """GNU Mailutils runs what follows `~!` at the beginning of a line; a line end in a subject ends the header."""
    _script(tmp_path, "gpu-exporter", "printf '%s\\n' '~!id' 'a ~ b'")
    (tmp_path / "mail.txt").write_text("@SUBJECT@\n@REPORT@\n~@USER@: bye\n")
    name = "t\u00e4st\n~!id\r\nBcc: all"
    subject = f"Slurm Job_id=7 Name={name} Ended, Run time 00:10:00, COMPLETED, ExitCode 0"
    one_line = "Slurm Job_id=7 Name=t\u00e4st ~!id  Bcc: all Ended, Run time 00:10:00, COMPLETED, ExitCode 0"

    assert _mail(tmp_path, "-s", subject, "al") == [one_line, "al", one_line, " ~!id", "a ~ b", " ~al: bye"]


def test_mail_has_a_report_of_any_length(tmp_path: Path) -> None:
    """The kernel takes 128 KiB as one argument or variable, and a job may have thousands of GPUs."""
    lines = [f"GPU {number} {'busy ' * 20}" for number in range(2000)]
    (tmp_path / "report").write_text("\n".join(lines) + "\n")
    _script(tmp_path, "gpu-exporter", f"cat {tmp_path}/report")
    (tmp_path / "mail.txt").write_text("Dear @USER@,\n@REPORT@\nbye\n")

    assert _mail(tmp_path, *ENDED)[2:] == ["Dear alice,", *(line.rstrip("\n") for line in lines), "bye"]


def test_mail_is_sent_whatever_the_settings_hold(tmp_path: Path) -> None:
    """They are lines that systemd takes, too, and a quote in a password ends no word there."""
    _script(tmp_path, "gpu-exporter", "echo report")
    (tmp_path / "settings").write_text("GPU_EXPORTER_PASSWORD=it's\n")

    assert _mail(tmp_path, *ENDED)[2:] == ["report"]
