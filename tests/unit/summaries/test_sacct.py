"""What sacct prints, as sacct 22.05 and 23.11 do."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.tools.report.accounting.sacct import AccountedJob, Sacct, SacctError, parse

PRINTED = """\
11|5_9|alice|physics|gpu|normal|e2e|COMPLETED|0:0|1000|4600|3600|120|1|16|01:30:00||billing=20,cpu=16,gres/gpu:h100=2,gres/gpu=2,mem=64G,node=1|
11.batch|5_9.batch|||||e2e|COMPLETED|0:0|1000|4600|3600||1|16|00:00.500|2G|cpu=16,gres/gpu=2,mem=64G,node=1|
11.0|5_9.0|||||e2e|COMPLETED|0:0|1000|4600|3600||1|16|01:29:59|9437184K|cpu=16,gres/gpu=2,mem=64G,node=1|
12|12|bob|nlp|gpu|normal|e2e|CANCELLED by 1000|0:0|Unknown|Unknown|0|UNLIMITED|2|0|00:00:00|||
13|10+1|carol|nlp|gpu|normal|e2e|TIMEOUT|0:15|1000|1060|60|1|1|4|1-02:03:04.500||cpu=4,gres/gpu:a100=1,gres/gpu:h100=2,node=1|
"""

ALICES = AccountedJob(
    "11", "5_9", "alice", "physics", "gpu", "normal", "e2e", "COMPLETED", "0:0", 1000.0, 4600.0, 3600.0, 7200.0,
    nodes=1, cpus=16, cpu_seconds=5400.0, memory_bytes=64 << 30, memory_peak_bytes=9 << 30, gpus=2.0, billing=20.0,
)  # fmt: skip


def test_jobs_with_what_their_steps_used() -> None:
    first, second, third = parse(PRINTED)

    assert first == ALICES
    assert (second.state, second.start, second.time_limit, second.gpus) == ("CANCELLED", None, None, 0.0)
    assert (third.name, third.gpus, third.cpu_seconds) == ("10+1", 3.0, 93784.5)


def test_memory_that_is_not_allocated_is_what_was_requested() -> None:
    """As with CR_Core, of Slurm 24.11."""
    line = "7|7|alice||gpu|||COMPLETED|0:0|1|2|1||1|2|00:01||billing=2,cpu=2,node=1|billing=2,cpu=2,mem=300M,node=1"
    (job,) = parse(line)

    assert job.memory_bytes == 300 << 20


@pytest.mark.parametrize("text", ["", "11\n", "|||||||||||||||||||\n", "x" * 100, "11.0|" + "|" * 17 + "\n"])
def test_lines_of_anything_else_are_passed_over(text: str) -> None:
    assert parse(text) == []


@given(st.text())
def test_any_text_is_survived(text: str) -> None:
    parse(text)
    parse("\n".join(f"7|{text}{'|' * 17}" for _ in range(2)))


def script(folder: Path, body: str) -> str:
    file = folder / "sacct"
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return str(file)


def test_answer_and_failures_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "said").write_text(PRINTED)
    sacct = Sacct(
        script(tmp_path, f'[ "$SLURM_TIME_FORMAT" = %s ] && echo "$@" > {tmp_path}/asked; cat {tmp_path}/said')
    )

    assert set(sacct.jobs(["11", "13"])) == {"11", "13"}
    assert "-j 11,13" in (tmp_path / "asked").read_text()
    assert [job.raw_id for job in sacct.ended(2000, 5000)] == ["11"]
    assert [found.raw_id for found in (sacct.of_name("10+1"),) if found] == ["13"]
    with pytest.raises(SacctError, match="disabled"):
        Sacct(script(tmp_path, "echo Slurm accounting storage is disabled >&2; exit 1")).jobs(["1"])
    with pytest.raises(SacctError, match="No such file"):
        Sacct("/nowhere/sacct").jobs(["1"])


def test_sacct_is_asked_for_what_ended_in_this_time_of_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    (tmp_path / "said").write_text("".join(f"{job}|{job}{'|' * 9}{end}{'|' * 8}\n" for job, end in ENDED.items()))
    sacct = Sacct(script(tmp_path, f'printf "%s\\n" "$@" > {tmp_path}/asked; cat {tmp_path}/said'))
    try:
        found = sacct.ended(86400.0, 90000.0)
    finally:
        monkeypatch.undo()
        time.tzset()

    fields, *asked = (tmp_path / "asked").read_text().split("\n-o\n")[1].split()
    assert fields.startswith("JobIDRaw,JobID,User,")
    assert asked == [
        *("-a", "-X", "-s", "CD,F,TO,CA,OOM,NF,PR,DL,BF"),
        *("-S", "1970-01-02T00:00:00", "-E", "1970-01-02T01:00:01"),
    ]
    assert [job.raw_id for job in found] == ["2", "3"]


ENDED = {"1": "86399", "2": "86400", "3": "90000", "4": "90001", "5": "Unknown"}


@pytest.mark.parametrize(
    ("tres", "gpus"),
    [
        ("", 0.0),
        ("cpu=4,node=1", 0.0),
        ("gres/gpu=3", 3.0),
        ("gres/gpu:a100=1,gres/gpu:h100=2", 3.0),
        ("gres/gpu=2,gres/gpu:h100=2", 2.0),
        ("gres/gpu:h100=2,gres/gpumem=80G,gres/gpuutil=5", 2.0),
    ],
)
def test_gpus_of_all_types_count_once(tres: str, gpus: float) -> None:
    (job,) = parse(f"7|7{'|' * 15}{tres}|\n".replace("7|7", "7|7|", 1))

    assert job.gpus == gpus


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "UTC"])
def test_hour_that_the_clock_shows_twice_is_asked_for(
    zone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sacct = Sacct(
        script(tmp_path, f'date -d "${{11}}" +%s >> {tmp_path}/since; date -d "${{13}}" +%s >> {tmp_path}/until')
    )
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    autumn = [1792886400 + 900 * quarter for quarter in range(12)] + [
        1793507400 + 900 * quarter for quarter in range(12)
    ]
    for since in autumn:
        sacct.ended(since, since + 600)
    monkeypatch.undo()
    time.tzset()

    assert [int(each) for each in (tmp_path / "since").read_text().split()] == autumn
    assert [int(each) for each in (tmp_path / "until").read_text().split()] == [each + 601 for each in autumn]
