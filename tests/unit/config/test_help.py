"""`--help` as a stranger reads it on a terminal of 80 columns."""

from __future__ import annotations

import re

import pytest

from exporter import __version__
from exporter.commands import COMMANDS, DAEMON
from exporter.config.command_line import Page, parser
from exporter.config.kinds import Choice, text
from exporter.config.option import Option
from exporter.tools.reference.manual import PAGES
from exporter.tools.reference.shell_completion import commands

COLUMNS = 80


def told(command: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    return parser(PAGES[command], commands()[command]).format_help()


def everything(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    with pytest.raises(SystemExit):
        parser(PAGES[command], commands()[command]).parse_args(["--help-all"])
    return capsys.readouterr().out


@pytest.mark.parametrize("command", PAGES)
def test_usage_is_one_line_and_what_the_command_does_follows(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usage, empty, about = told(command, monkeypatch).splitlines()[:3]

    assert usage.startswith(f"usage: {PAGES[command].prog} ")
    assert (empty, PAGES[command].description.startswith(about)) == ("", True)


@pytest.mark.parametrize("command", PAGES)
def test_no_line_is_wider_than_the_terminal(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = [line for line in told(command, monkeypatch).splitlines() if len(line) >= COLUMNS]

    assert [line for line in wide if "https://" not in line] == []


def test_help_shows_two_examples_and_the_common_options(monkeypatch: pytest.MonkeyPatch) -> None:
    page = told("serve", monkeypatch)

    assert page.count("\n  gpu-exporter") == 2
    assert "--web.listen-address" in page
    assert "--path.procfs" not in page
    assert "--help-all shows every one." in page


def test_help_all_names_every_command_and_every_option_with_its_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = everything("serve", monkeypatch, capsys)
    words = " ".join(page.split())

    assert [name for name in COMMANDS if not re.search(rf"^  {name} +\w", page, re.MULTILINE)] == []
    for option in commands()["serve"]:
        assert f"  {option.flag}" in page
        default = ("on" if option.default_value else "off") if option.switch else option.shown_default
        assert f"(default: {default})" in words or not default


def test_general_options_are_described_and_print_what_they_say(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = told("once", monkeypatch)
    for flag, words in (
        ("-h, --help", "Show this and exit."),
        ("--help-all", "Show every option and exit."),
        ("--version", "Print the version and exit."),
        ("--config.file FILE", "YAML file of options."),
    ):
        assert f"  {flag}\n      {words}\n" in page
    for flag, printed in (("--help", page), ("--version", f"gpu-exporter {__version__}\n")):
        with pytest.raises(SystemExit):
            parser(PAGES["once"], commands()["once"]).parse_args([flag])
        assert capsys.readouterr().out == printed


@pytest.mark.parametrize("command", ["once", "capture", "check"])
def test_a_command_shows_its_own_options_and_takes_the_others(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = told(command, monkeypatch)

    assert "--simulate" in page
    assert "--ledger.thresholds" not in page
    assert "--ledger.thresholds" in everything(command, monkeypatch, capsys)
    taken = parser(PAGES[command], commands()[command]).parse_args(["--ledger.thresholds", "sm-low=0.4"])
    assert vars(taken)["ledger.thresholds"] == "sm-low=0.4"


def test_options_that_a_page_names_are_there() -> None:
    for command, page in PAGES.items():
        assert set(page.common) <= {word for option in commands()[command] for word in (option.group, option.name)}


def test_a_percent_sign_is_one() -> None:
    table = (Option("a", "", text, "A", "Half is 50%.", "G"),)

    assert "Half is 50%." in parser(Page("x", "Does."), table).format_help()


def test_the_daemon_takes_no_argument() -> None:
    assert DAEMON.argument == ""


@pytest.mark.parametrize("command", PAGES)
def test_an_option_that_takes_one_of_a_few_words_says_which(command: str) -> None:
    unsaid = [
        (option.flag, word)
        for option in commands()[command]
        if isinstance(option.parse, Choice)
        for word in option.parse.known
        if not re.search(rf"\b{word}\b", option.help)
    ]

    assert unsaid == []
