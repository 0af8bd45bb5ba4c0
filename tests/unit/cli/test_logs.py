"""Log lines as journald is to have them."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from exporter.config.logs import Journal, Json, LogConfig, Logfmt, configure, print_error, to_journal


def record(level: int, message: str) -> logging.LogRecord:
    return logging.LogRecord("exporter.x", level, "x.py", 1, message, None, None)


def test_every_line_carries_its_priority() -> None:
    shown = Journal(Logfmt())

    assert shown.format(record(logging.WARNING, "odd")).startswith("<4>time=")
    assert shown.format(record(logging.ERROR, "bad")).startswith("<3>")
    assert shown.format(record(logging.INFO, "fine")).startswith("<6>")
    both = Journal(logging.Formatter("%(message)s")).format(record(logging.WARNING, "one\ntwo"))
    assert both == "<4>one\n<4>two"


def test_only_the_stream_that_systemd_connected_is_the_journals(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as stream:
        status = os.fstat(stream.fileno())
        assert to_journal(stream, {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"})
        assert not to_journal(stream, {"JOURNAL_STREAM": "1:2"})
        assert not to_journal(stream, {})
    assert not to_journal(stream, {"JOURNAL_STREAM": "1:2"})  # closed
    assert not to_journal(sys.stderr, {})


def test_wrong_option_is_an_error_in_the_journal_too(tmp_path: Path) -> None:
    """As the unit has it: standard error is the connection to journald that JOURNAL_STREAM names."""
    command = [sys.executable, "-m", "exporter", "--web.listen-address", ":98360"]
    said: list[str] = []
    for connected in (True, False):
        with (tmp_path / "journal").open("w+") as file:
            status = os.fstat(file.fileno())
            stream = f"{status.st_dev}:{status.st_ino}" if connected else "1:1"
            done = subprocess.run(command, env={**os.environ, "JOURNAL_STREAM": stream}, stderr=file, check=False)
            file.seek(0)
            said.append(file.read())
        assert done.returncode == 2

    assert said[0] == f"<3>{said[1]}"
    assert said[1].startswith("gpu-exporter: --web.listen-address: expected")


@pytest.mark.parametrize("formatter", [Logfmt(), Json()])
def test_no_text_of_a_user_commands_the_terminal(formatter: logging.Formatter) -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "job %s", ("a\n\x1b[2J\x9b\u202e",), None)
    shown = formatter.format(record)

    assert shown.isprintable()
    assert r"\u202e" in shown


def test_line_has_the_time_of_its_message_and_quotes_what_has_blanks() -> None:
    entry = record(logging.INFO, "GPU 3 is lost")
    time, rest = Logfmt().format(entry).split(" ", 1)

    assert rest == 'level=info logger=exporter.x msg="GPU 3 is lost"'
    assert datetime.strptime(time, "time=%Y-%m-%dT%H:%M:%S%z").timestamp() == int(entry.created)


def test_error_of_a_command_is_one_line_with_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    print_error("no such\nfile")

    assert capsys.readouterr().err == "gpu-exporter: no such\\nfile\n"


@pytest.fixture
def levels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep handlers and levels of this test run."""
    loggers = [logging.getLogger(), logging.getLogger("urllib3")]
    before = [logger.level for logger in loggers]
    monkeypatch.setattr(loggers[0], "handlers", list[logging.Handler]())
    loggers[1].setLevel(logging.NOTSET)
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


@pytest.mark.usefixtures("levels")
def test_debug_shows_no_connection_of_the_http_library() -> None:
    configure(LogConfig(level="debug"))
    shown = {name: logging.getLogger(name).getEffectiveLevel() for name in ("exporter.x", "urllib3.connectionpool")}

    assert shown == {"exporter.x": logging.DEBUG, "urllib3.connectionpool": logging.WARNING}
