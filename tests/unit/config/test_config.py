"""Options: precedence, one-line errors, and one table for flags, environment and file."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.config import load as config
from exporter.config.network import address, address_text
from exporter.config.option import STATIC, ConfigError, Option, duration, duration_text, names
from exporter.tools.report.options import OPTIONS as REPORT

TABLE = STATIC


def load(*arguments: str, environment: dict[str, str] | None = None) -> config.Config:
    return config.load(arguments, environment or {}, TABLE)


def test_defaults_hold_without_any_input() -> None:
    assert load()["sample.interval"] == 1.0
    assert load()["web.listen-address"] == ("", 9836)


def test_flag_wins_over_environment_and_environment_over_file(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("sample: {interval: 2s, stale: 20s}\nprocess.limit: 7\n")
    environment = {"GPU_EXPORTER_SAMPLE_INTERVAL": "3s", "GPU_EXPORTER_SAMPLE_STALE": "30s"}

    made = load("--config.file", str(file), "--sample.interval", "4s", environment=environment)

    assert made["sample.interval"] == 4.0
    assert made["sample.stale"] == 30.0
    assert made["process.limit"] == 7


def test_option_with_others_below_it_is_set_by_value_key(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("attribution:\n  kubernetes:\n    value: 'off'\n    pod-labels: [team, app]\n")

    made = load("--config.file", str(file))

    assert made["attribution.kubernetes"] == "off"
    assert made["attribution.kubernetes.pod-labels"] == ("team", "app")


def test_yaml_boolean_for_a_mode_is_understood(tmp_path: Path) -> None:
    """YAML 1.1 reads a bare `on` as true: what the user wrote is what counts."""
    file = tmp_path / "c.yaml"
    file.write_text("attribution.kubernetes: on\nattribution.slurm: off\n")

    made = load("--config.file", str(file))

    assert (made["attribution.kubernetes"], made["attribution.slurm"]) == ("on", "off")


def test_switches_have_a_negative_form() -> None:
    assert load("--attribution.kubernetes.api")["attribution.kubernetes.api"] is True
    assert load("--no-attribution.kubernetes.api")["attribution.kubernetes.api"] is False


def test_under_gives_the_options_below_a_prefix() -> None:
    assert load().under("log") == {"level": "info", "format": "logfmt"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--web.listen-adress", ":1"], "unrecognized arguments: --web.listen-adress"),
        (["--sample.interval", "soon"], "--sample.interval: expected a duration such as 500ms, 10s or 2m, got 'soon'"),
        (["--sample.interval", "0"], "--sample.interval: expected a duration above zero, got '0'"),
        (["--web.listen-address", "9836"], "--web.listen-address: expected HOST:PORT, :PORT or [IPV6]:PORT"),
        (["--web.listen-address", "é..x:80"], "--web.listen-address: expected HOST:PORT, :PORT or [IPV6]:PORT"),
        (["--nccl.ras-address", "x" * 64 + ":1"], "--nccl.ras-address: expected HOST:PORT, :PORT or [IPV6]:PORT"),
        (["--nccl.ras=off"], "argument --nccl.ras/--no-nccl.ras: expected no value, got 'off'"),
        (["--simulate", "1xT4", "once"], "unrecognized arguments: once; the command comes first: gpu-exporter once"),
        (["--web.telemetry-path", "/"], "--web.telemetry-path: expected a path such as /metrics"),
        (["--process.limit", "-1"], "--process.limit: expected a whole number"),
        (["--log.level", "loud"], "--log.level: expected one of debug, info, warning, error"),
        (["--config.file", "/nowhere.yaml"], "--config.file /nowhere.yaml: No such file or directory"),
        (["--sample.interval=--"], "--sample.interval: expected a duration such as 500ms, 10s or 2m, got '--'"),
        (["--config.file=--"], "--config.file --: No such file or directory"),
        (["--web.runbook-url", "\udcff"], "--web.runbook-url: expected text in UTF-8, got '\\udcff'"),
    ],
)
def test_bad_input_is_one_line_that_names_the_option(arguments: list[str], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(*arguments)

    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("web: {port: 1}", "unknown option 'web.port'"),
        ("- a list", "expected a mapping of options"),
        ("a: [", "not YAML"),
        ("log.level: info\nlog.level: debug", "not YAML: key 'log.level' is there twice"),
        ("log.level: info\nlog: {level: debug}", "log.level is there twice, whole and nested"),
        ("process.limit: [[1]]", "process.limit: expected a list of plain values"),
        ("[" * 100_000, "not YAML: nested too deeply"),
        ("sample.interval: soon", "sample.interval: expected a duration"),
        ("process.limit: 1" + "0" * 5000, "not YAML: Exceeds the limit"),
        ("state.dir: 2026-02-31", "not YAML: day is out of range for month"),
        ("process.command-line: !!bool perhaps", "not YAML: 'perhaps'"),
        ('state.dir: "\\0"', "state.dir: expected text without NUL"),
        ('state.dir: "\\ud800"', "state.dir: expected text in UTF-8"),
    ],
)
def test_bad_file_is_one_line_that_names_the_file(tmp_path: Path, content: str, expected: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(content)

    with pytest.raises(ConfigError) as caught:
        load("--config.file", str(file))

    assert str(file) in str(caught.value)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_file_serves_all_commands(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("{sample.interval: 2s, check: {gpus: 8}, prometheus.url: 'http://p', summaries: x}")
    with pytest.raises(ConfigError, match="unknown option 'summaries'"):
        load("--config.file", str(file))
    file.write_text(
        "{sample.interval: 2s, check: {gpus: 8}, prometheus.url: 'http://p', state-dir: /s, capture.mask: off}"
    )

    assert load("--config.file", str(file))["sample.interval"] == 2
    assert config.load(("--config.file", str(file)), {}, REPORT)["prometheus.url"] == "http://p"


def test_names_of_files_may_be_in_any_encoding() -> None:
    assert load("--state.dir", "/\udcff")["state.dir"] == "/\udcff"


def test_bad_environment_names_the_variable() -> None:
    with pytest.raises(ConfigError, match="GPU_EXPORTER_PROCESS_LIMIT: expected a whole number, got 'x'"):
        load(environment={"GPU_EXPORTER_PROCESS_LIMIT": "x"})


def test_every_default_survives_being_written_and_read_again() -> None:
    for option in TABLE:
        assert option.parse(config.show(option.default)) == option.default, option.name


@given(st.text(max_size=40))
def test_parsers_raise_value_error_and_nothing_else(text: str) -> None:
    for option in TABLE:
        with contextlib.suppress(ValueError):
            option.parse(text)


@given(st.integers(0, 65535), st.sampled_from(["", "127.0.0.1", "localhost", "[::1]"]))
def test_address_round_trip(port: int, host: str) -> None:
    assert address(f"{host}:{port}") == (host.strip("[]"), port)
    assert address_text(*address(f"{host}:{port}")) == f"{host}:{port}"


def test_durations() -> None:
    assert [duration(text) for text in ("250ms", "10s", "2m", "1h", "7d", "1.5")] == [0.25, 10, 120, 3600, 604800, 1.5]


def test_names_split_on_commas_and_blanks() -> None:
    assert names(" a, b c ,") == ("a", "b", "c")


def test_environment_names_are_unique() -> None:
    found = [option.environment for option in TABLE]

    assert len(set(found)) == len(found)


def test_an_option_is_frozen() -> None:
    with pytest.raises(AttributeError):
        Option("a", 1, int, "", "", "").name = "b"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("seconds", "shown"), [(604800.0, "7d"), (0.8, "800ms"), (120.0, "2m"), (90.0, "90s"), (1.5, "1.5s"), (0.0, "0s")]
)
def test_a_duration_is_shown_as_it_is_typed(seconds: float, shown: str) -> None:
    assert duration_text(seconds) == shown
    assert duration(shown) == seconds


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--ledger.active", "5"], "--ledger.active: expected a number from 0 to 1, got '5'"),
        (["--ledger.active", "nan"], "--ledger.active: expected a number, got 'nan'"),
        (["--ledger.polls-after", "inf"], "--ledger.polls-after: expected a number, got 'inf'"),
        (["--ledger.polls-after=-1"], "--ledger.polls-after: expected a number from 0 on, got '-1'"),
        (["--web.max-threads", "100000"], "--web.max-threads: expected a whole number from 1 to 256, got '100000'"),
        (["--web.telemetry-path", "/-/ready"], "--web.telemetry-path: expected a path beside those of the probes"),
        (["--sample.stale", "9999999d"], "--sample.stale: expected a duration of at most 36500d, got '9999999d'"),
        (["--process.limit", "9" * 5000], "--process.limit: expected a whole number of at most 18 digits, got '999"),
        (["--log.level", "x" * 5000], "--log.level: expected one of debug, info, warning, error, got 'xxx"),
    ],
)
def test_number_out_of_its_range_is_one_short_line(arguments: list[str], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(arguments, {}, config.options())

    assert str(caught.value).startswith(expected)
    assert len(str(caught.value)) < 300


def test_at_least_one_thread_answers() -> None:
    with pytest.raises(ConfigError, match=r"web\.max-threads: expected a whole number from 1 on"):
        load("--web.max-threads", "0")


@pytest.mark.parametrize("arguments", [("f", "--log.level", "error"), ("--log.level", "error", "f"), ("--", "f")])
def test_the_argument_may_stand_anywhere(arguments: tuple[str, ...]) -> None:
    page = config.Page("x", "", argument="FILE")
    assert config.load(arguments, {}, TABLE, page)[config.ARGUMENT] == "f"


def test_a_second_argument_is_refused() -> None:
    with pytest.raises(ConfigError, match="unrecognized arguments: g"):
        config.load(("f", "g"), {}, TABLE, config.Page("x", "", argument="FILE"))
