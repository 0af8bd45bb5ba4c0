"""Options: precedence, one-line errors, and one table for flags, environment and file."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import commands
from exporter.config import load as config
from exporter.config.command_line import Page
from exporter.config.kinds import address, address_text, duration, duration_text, names, text
from exporter.config.option import ConfigError, Option, option, options_of, positional, section, values_of
from exporter.daemon.config import DaemonConfig
from exporter.ledger.states import resolve_limits

TABLE = options_of(DaemonConfig)


def load(*arguments: str, environment: dict[str, str] | None = None) -> DaemonConfig:
    made: DaemonConfig = commands.load("serve", arguments, environment or {})
    return made


def test_defaults_hold_without_any_input() -> None:
    assert load().sample.interval == 1.0
    assert load().web.listen_address == ("", 9836)


def test_flag_wins_over_environment_and_environment_over_file(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("sample: {interval: 2s, stale: 20s}\nprocess.limit: 7\n")
    environment = {"GPU_EXPORTER_SAMPLE_INTERVAL": "3s", "GPU_EXPORTER_SAMPLE_STALE": "30s"}

    made = load("--config.file", str(file), "--sample.interval", "4s", environment=environment)

    assert made.sample.interval == 4.0
    assert made.sample.stale == 30.0
    assert made.process.limit == 7


def test_option_with_others_below_it_is_set_by_value_key(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("attribution:\n  kubernetes:\n    value: 'off'\n    pod-labels: [team, app]\n")

    made = load("--config.file", str(file))

    assert made.attribution.kubernetes.mode == "off"
    assert made.attribution.kubernetes.pod_labels == ("team", "app")


def test_section_whose_keys_are_all_commented_out_sets_nothing(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("sample:\n  # interval: 2s\ncheck:\nlog: {level: debug}\n")

    assert load("--config.file", str(file)) == load("--log.level", "debug")


def test_yaml_boolean_for_a_mode_is_understood(tmp_path: Path) -> None:
    """YAML 1.1 reads a bare `on` as true: what the user wrote is what counts."""
    file = tmp_path / "c.yaml"
    file.write_text("attribution.kubernetes: on\nattribution.slurm: off\n")

    made = load("--config.file", str(file))

    assert (made.attribution.kubernetes.mode, made.attribution.slurm.mode) == ("on", "off")


def test_switches_have_a_negative_form() -> None:
    assert load("--attribution.kubernetes.api").attribution.kubernetes.api is True
    assert load("--no-attribution.kubernetes.api").attribution.kubernetes.api is False


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--web.listen-adress", ":1"], "--web.listen-adress :1, did you mean --web.listen-address (see --help)"),
        (["--sample.intervall", f"every {9 * 'very '}short time"], "time, did you mean --sample.interval (see --help)"),
        (["--sample.intervall=2s"], "--sample.intervall=2s, did you mean --sample.interval (see --help)"),
        (["--no-process.commandline"], "did you mean --no-process.command-line (see --help)"),
        (["--zzz"], "unrecognized arguments: --zzz (see --help)"),
        (["--sample.interval", "1h"], "--sample.interval: expected a duration of at most 1m, got '1h'"),
        (["--sample.interval", "soon"], "--sample.interval: expected a duration such as 500ms, 10s or 2m, got 'soon'"),
        (["--sample.interval", "0"], "--sample.interval: expected a duration above zero, got '0'"),
        (["--web.listen-address", "9836"], "--web.listen-address: expected HOST:PORT, :PORT or [IPV6]:PORT"),
        (["--web.listen-address", "é..x:80"], "--web.listen-address: expected HOST:PORT, :PORT or [IPV6]:PORT"),
        (["--web.listen-address", "x" * 64 + ":1"], "--web.listen-address: expected HOST:PORT, :PORT or [IPV6]:PORT"),
        (["--collectors.disable=nvlnk"], "nvlnk is none of them, did you mean nvlink, got 'nvlnk'"),
        (["--attribution.kubernetes=of"], "--attribution.kubernetes: expected one of auto, on, off, an absolute path"),
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
        ("value: x", "unknown option 'value'"),
        ("web: {port: 1}", "unknown option 'web.port'"),
        ("web: {listen-adress: x}", "unknown option 'web.listen-adress', did you mean web.listen-address"),
        ("process.limits: 1", "unknown option 'process.limits', did you mean process.limit"),
        ("check: {stages: full}", "unknown option 'check.stages', did you mean check.stage"),
        ("ledger: {wait-cover: 0.4}", "unknown option 'ledger.wait-cover'"),
        ("ledger: {thresholds: {wait-covr: 0.4}}", "wait-covr is none, did you mean wait-cover, got 'wait-covr=0.4'"),
        ("ledger: {thresholds: {wait-cover: 5}}", "wait-cover to be a number from 0 to 1, got 'wait-cover=5'"),
        ("ledger: {thresholds: {wait-cover: [1]}}", "ledger.thresholds: expected a mapping of plain values"),
        ("collectors: {disable: [ec]}", "ec is none of them, did you mean ecc, got 'ec'"),
        ("- a list", "expected a mapping of options"),
        ("a: [", "not YAML"),
        ("log.level: info\nlog.level: debug", "not YAML: key 'log.level' is there twice"),
        ("log.level: info\nlog: {level: debug}", "log.level is there twice, whole and nested"),
        ("process.limit: [[1]]", "process.limit: expected a list of plain values"),
        ("[" * 100_000, "not YAML: nested too deeply"),
        ("sample.interval: soon", "sample.interval: expected a duration"),
        pytest.param(
            "process.limit: 1" + "0" * 5000,
            "not YAML: Exceeds the limit",
            marks=pytest.mark.skipif(
                not hasattr(sys, "set_int_max_str_digits"), reason="this Python takes numbers of any length"
            ),
        ),
        ("state.dir: 2026-02-31", "not YAML: day "),
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
    file.write_text("{sample.interval: 2s, check: {stage: full}, prometheus.url: 'http://p', summaries: x}")
    with pytest.raises(ConfigError, match="unknown option 'summaries'"):
        load("--config.file", str(file))
    file.write_text(
        "{sample.interval: 2s, check: {stage: full}, prometheus.url: 'http://p', state.dir: /s, capture.mask: off}"
    )

    assert load("--config.file", str(file)).sample.interval == 2
    assert commands.load("report", ("--config.file", str(file)), {}).prometheus.url == "http://p"


def test_names_of_files_may_be_in_any_encoding() -> None:
    assert load("--state.dir", "/\udcff").faults.state.folder == "/\udcff"


def test_bad_environment_names_the_variable() -> None:
    with pytest.raises(ConfigError, match="GPU_EXPORTER_PROCESS_LIMIT: expected a whole number, got 'x'"):
        load(environment={"GPU_EXPORTER_PROCESS_LIMIT": "x"})


def test_daemon_has_at_most_40_options() -> None:
    assert len(TABLE) <= 40


_SAMPLES = {
    "xid": "79=ignore",
    "expect.reference": "nvlinks=18",
    "simulate": "1xT4",
    "web.listen-address": "[::1]:1",
    "attribution.nomad": "address=http://n:1",
}


def _another(option: Option) -> str:
    """Return a text that is no default of the option."""
    for each in (*_SAMPLES.values(), "7", "7s", "/x/y", "a", "error", "json", "off", "nvlink", "true", "user=a:batch",
                 "sm-low=0.1", "condition", "docker=/srv/docker"):  # fmt: skip
        with contextlib.suppress(ValueError):
            if option.parse(each) != option.default_value:
                return each
    raise AssertionError(option.name)


@pytest.mark.parametrize("option", TABLE, ids=lambda option: option.name)
def test_option_has_one_value_as_flag_variable_and_key(tmp_path: Path, option: Option) -> None:
    given = _another(option)
    (tmp_path / "c.yaml").write_text(f"{option.name}: '{given}'\n")
    flag = f"--{'no-' if given == 'false' else ''}{option.name}" if option.switch else f"--{option.name}={given}"

    found = [
        values_of(made)[option.name]
        for made in (
            load(flag),
            load(environment={option.environment: given}),
            load("--config.file", str(tmp_path / "c.yaml")),
        )
    ]

    assert found == [option.parse(given)] * 3
    assert found[0] != values_of(load())[option.name]


def test_mapping_in_the_file_is_the_list_of_the_flag(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("ledger:\n  thresholds:\n    wait-cover: 0.4\n    write-bytes-per-second: 2e+6\n")

    made = load("--config.file", str(file)).ledger.thresholds

    assert made == load("--ledger.thresholds=wait-cover=0.4,write-bytes-per-second=2e6").ledger.thresholds
    assert made == resolve_limits({"wait-cover": 0.4, "write-bytes-per-second": 2e6})


def test_daemon_and_check_read_what_every_gpu_must_have(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("expect: {reference: {driver: '580.95.05', power-limit: 700, ecc: on}}\n")

    check = commands.load("check", ("--config.file", str(file)), {})
    assert load("--config.file", str(file)) == check.daemon
    assert check.daemon.faults.expect_reference == {"driver": "580.95.05", "power-limit": "700", "ecc": "on"}


def test_names_follow_from_sections_and_fields() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Inner:
        mode: str = option("auto", text, "Mode.", name="")
        two_words: float = option("2s", duration, "Time.")

    @dataclass(frozen=True, kw_only=True)
    class Outer:
        part: Inner = section(Inner, group="Part")
        plain: Inner = section(Inner, "", group="Plain")
        name: str = positional()

    found = [(option.name, option.group) for option in options_of(Outer)]

    assert found[:3] == [("part", "Part"), ("part.two-words", "Part"), ("", "Plain")]
    assert config.load(Outer, ("x", "--part=b", "--part.two-words=3s"), {}, Page("x", "", argument="NAME")) == Outer(
        part=Inner(mode="b", two_words=3.0), name="x"
    )


@given(st.text(max_size=40))
def test_parsers_raise_value_error_and_nothing_else(given_text: str) -> None:
    for each in TABLE:
        with contextlib.suppress(ValueError):
            each.parse(given_text)


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
        Option("a", "1", int, "", "", "").name = "b"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("seconds", "shown"), [(604800.0, "7d"), (0.8, "800ms"), (120.0, "2m"), (90.0, "90s"), (1.5, "1.5s"), (0.0, "0s")]
)
def test_a_duration_is_shown_as_it_is_typed(seconds: float, shown: str) -> None:
    assert duration_text(seconds) == shown
    assert duration(shown) == seconds


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--ledger.thresholds=active=5"], "--ledger.thresholds: expected active to be a number from 0 to 1, got "),
        (["--ledger.thresholds=active=nan"], "--ledger.thresholds: expected active to be a number, got "),
        (
            ["--ledger.thresholds=polling-seconds=-1"],
            "--ledger.thresholds: expected polling-seconds to be a number from 0 on",
        ),
        (["--ledger.thresholds=active"], "--ledger.thresholds: expected NAME=VALUE,...; active has no value, got"),
        (
            ["--ledger.thresholds=active=0.1,active=0.2"],
            "--ledger.thresholds: expected NAME=VALUE,...; active is there twice, got",
        ),
        (["--web.telemetry-path", "/-/ready"], "--web.telemetry-path: expected a path beside /-/, /runbooks/"),
        (["--web.telemetry-path", "/runbooks/x"], "--web.telemetry-path: expected a path beside /-/, /runbooks/"),
        (["--web.telemetry-path", "/api/v1/allocations"], "--web.telemetry-path: expected a path beside /-/"),
        (["--sample.stale", "9999999d"], "--sample.stale: expected a duration of at most 36500d, got '9999999d'"),
        (["--process.limit", "9" * 5000], "--process.limit: expected a whole number of at most 18 digits, got '999"),
        (["--log.level", "x" * 5000], "--log.level: expected one of debug, info, warning, error, got 'xxx"),
    ],
)
def test_number_out_of_its_range_is_one_short_line(arguments: list[str], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(*arguments)

    assert str(caught.value).startswith(expected)
    assert len(str(caught.value)) < 300


@dataclass(frozen=True, kw_only=True)
class WithArgument:
    level: str = option("info", text, "Level.", name="log.level")
    file: str = positional()


@pytest.mark.parametrize("arguments", [("f", "--log.level", "error"), ("--log.level", "error", "f"), ("--", "f")])
def test_the_argument_may_stand_anywhere(arguments: tuple[str, ...]) -> None:
    assert config.load(WithArgument, arguments, {}, Page("x", "", argument="FILE")).file == "f"


def test_a_second_argument_is_refused() -> None:
    with pytest.raises(ConfigError, match="unrecognized arguments: g"):
        config.load(WithArgument, ("f", "g"), {}, Page("x", "", argument="FILE"))
