"""Arguments are shown without their secrets."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.host.command import _MAX_BYTES, masked_command_line, shown


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["python", "train.py", "--batch", "32"], "python train.py --batch 32"),
        (["x", "--password", "hunter2", "--lr", "1"], "x --password *** --lr 1"),
        (["x", "--api-key=abc"], "x --api-key=***"),
        (["env", "WANDB_API_KEY=abc", "x"], "env WANDB_API_KEY=*** x"),
        (["x", "--hf-token", "--verbose"], "x --hf-token --verbose"),
        (["x", "s3://user:pass@host/data"], "x s3://***@host/data"),
        (["x", "hf_abcdefghijklmnop"], "x ***"),
        (["x", "a\nb"], r"x a\nb"),
        (["x", "--wandb_key", "abc"], "x --wandb_key ***"),
        (["x", "--pwd=abc"], "x --pwd=***"),
        (["x", "--pass", "abc"], "x --pass ***"),
        (["x", "--cycles=3"], "x --cycles=3"),
        (["x", "--api-key=abc", "train"], "x --api-key=*** train"),
        (["x", '{"password": "a b", "lr": 1}'], 'x {"password": ***, "lr": 1}'),
        (["x", "--config={'api_key': 'abc'}"], "x --config={'api_key': ***}"),
        (
            ["x", "https://b.s3.amazonaws.com/o?X-Amz-Credential=A&X-Amz-Signature=f"],
            "x https://b.s3.amazonaws.com/o?***",
        ),
        (
            ["x", "--url=https://a.blob.core.windows.net/c?sv=1&sig=abc"],
            "x --url=https://a.blob.core.windows.net/c?***",
        ),
        (["x", "s3://user:p@ss@host/data"], "x s3://***@host/data"),
        (["x", "s3://user:p?x@host/data"], "x s3://user:p?***"),
        (["sh", "-c", "TOKEN=abc python train.py"], "sh -c TOKEN=***"),
        (["sh", "-c", "x TOKEN=abc python train.py"], "sh -c x TOKEN=*** python train.py"),
        (["x", "AccountName=n;AccountKey=abc;Suffix=s"], "x AccountName=n;AccountKey=***;Suffix=s"),
        (["curl", "-H", "Authorization: Bearer abc"], "curl -H Authorization: ***"),
        (["curl", "-u", "name:abc", "https://h"], "curl -u *** https://h"),
    ],
)
def test_secrets_are_masked(arguments: list[str], expected: str) -> None:
    assert shown(arguments) == expected


def test_long_lines_are_cut() -> None:
    assert len(shown(["x" * 1000])) == 200
    assert shown(["x" * 199, "y"]) == "x" * 199 + "…"
    assert shown(["x" * 198, "y"]) == "x" * 198 + " y"


@given(st.lists(st.text(max_size=20), max_size=8))
def test_result_is_one_printable_line(arguments: list[str]) -> None:
    found = shown(arguments)

    assert found == "" or found.isprintable()
    assert len(found) <= 200


@given(st.sampled_from(["--password", "--secret-key", "--auth_token"]), st.text("abcXYZ019", min_size=6, max_size=20))
def test_value_after_a_secret_name_never_shows(name: str, value: str) -> None:
    assert value not in shown(["program", name, value])


@pytest.mark.parametrize("piece", ["a", "a:", "://", "://a@", "?a=", "'a':", '"a":"', "a=", "\\", '"k":"\\'])
def test_long_arguments_cost_no_more_than_their_length(piece: str) -> None:
    long = piece * (_MAX_BYTES // len(piece))
    began = time.process_time()
    shown(["x", long, long])

    assert time.process_time() - began < 2.0  # a regular expression that backtracks takes ten times as long


def test_arguments_of_a_program_can_be_read() -> None:
    with subprocess.Popen(["cat", "-u"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as program:
        assert program.stdin
        assert program.stdout
        program.stdin.write(b"runs")
        assert program.stdout.read(4) == b"runs"
        assert masked_command_line(program.pid, Path("/proc")) == "cat -u"
        program.stdin.close()


def test_process_that_has_gone_has_none(tmp_path: Path) -> None:
    assert masked_command_line(1, tmp_path) == ""
