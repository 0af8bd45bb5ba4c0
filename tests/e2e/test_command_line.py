"""The command line as a user meets it: wrong input is one line and status 2, SIGTERM is status 0."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from tests import command
from tests.exporter_process import COMMAND, ROOT, exporter
from tests.stack import program


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--web.listen-adress=:1"], "unrecognized arguments: --web.listen-adress=:1"),
        (["--config.file=/nowhere.yaml"], "--config.file /nowhere.yaml: No such file or directory"),
        (["--web.config.file=/nowhere.yaml"], "--web.config.file /nowhere.yaml: No such file or directory"),
        (["--simulate=8xH2000"], "--simulate 8xH2000: '8xH2000' names no GPUs"),
        (["--simulate", "node.yaml"], "'node.yaml' names no GPUs; expected @node.yaml"),
        (["--sample.interval", "-1s"], "--sample.interval: expected a duration such as 500ms, 10s or 2m, got '-1s'"),
        (["--driver.capture=/nowhere.json"], "--driver.capture /nowhere.json: No such file or directory"),
        (["--simulate=1xH200", "--driver.capture=x"], "--simulate and --driver.capture: expected one of them"),
        (["--sample.interval=1h"], "--sample.interval: expected a duration of at most 1m, got '1h'"),
        (
            ["--sample.interval=15s", "--sample.stale=12s"],
            "--sample.stale: expected at least 1.8 times --sample.interval (27s), got 12s",
        ),
        (["--sample.stale=1s"], "--sample.stale: expected at least 1.8 times --sample.interval (1.8s), got 1s"),
        (["frobnicate"], "unknown command 'frobnicate'"),
        (["chek"], "unknown command 'chek', did you mean check"),
    ],
)
def test_wrong_input_is_one_line_and_status_2(arguments: list[str], expected: str) -> None:
    done = command.run(*arguments)

    assert done.returncode == 2
    assert expected in done.stderr
    assert done.stderr.startswith("gpu-exporter: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_taken_port_is_one_line_and_status_2() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"

        done = run("--simulate", "1xT4", "--web.listen-address", address, "--log.level", "error")

    assert done.returncode == 2
    assert done.stderr.startswith(f"gpu-exporter: --web.listen-address {address}: ")
    assert done.stderr.count("\n") == 1


def test_unreadable_key_is_one_line_and_status_2(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n")

    done = run("--simulate", "1xT4", "--web.config.file", str(file), "--web.listen-address", "127.0.0.1:0")

    assert done.returncode == 2
    assert done.stderr == f"gpu-exporter: --web.config.file: {tmp_path / 'cert.pem'}: No such file or directory\n"


def test_once_prints_a_full_node() -> None:
    # A busy machine may keep it from its simulated GPUs for longer than the deadline, which is no fault here.
    done = run("once", "--simulate", "8xH200", "--log.level", "warning", "--sample.interval", "4s")

    assert done.returncode == 0
    assert done.stderr == ""
    assert sum(not line.startswith("#") for line in done.stdout.splitlines()) >= 1000


def test_once_does_not_wait_for_the_interval_of_the_daemon() -> None:
    done = run("once", "--simulate", "1xT4", "--log.level", "error", "--sample.interval", "1m")

    assert done.returncode == 0
    assert "gpu_exporter_sample_interval_seconds 60.0" in done.stdout
    assert "gpu_exporter_sampling_cycles_total 2.0" in done.stdout


def test_once_leaves_to_the_daemon_what_is_the_daemons(tmp_path: Path) -> None:
    """Run by root, it left a file of faults that the daemon's own user could not read at its next start."""
    state, path = tmp_path / "state", tmp_path / "progress"
    state.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemons:
        daemons.bind(str(path))
        before = path.stat()
        run("once", "--state.dir", str(state), "--simulate", "1xT4")
        run("once", "--state.dir", str(state), "--progress.socket", str(path), LD_LIBRARY_PATH="/nowhere")

    assert list(state.iterdir()) == []
    assert path.stat() == before


def test_without_a_driver_nothing_is_simulated() -> None:
    done = run("once", LD_LIBRARY_PATH="/nowhere")

    assert done.returncode == 1
    assert 'gpu_exporter_driver_error{error="LIBRARY_NOT_FOUND"} 1.0' in done.stdout
    assert "gpu_exporter_simulated 0.0" in done.stdout
    assert "gpu_up" not in done.stdout


def test_what_capture_records_is_what_replay_shows(tmp_path: Path) -> None:
    file = tmp_path / "node.json"
    recorded = run("capture", str(file), "--simulate", "2xH100", "--capture.duration", "1s", "--log.level", "error")
    assert (recorded.returncode, recorded.stdout) == (0, "")

    shown = run("once", "--driver.capture", str(file), "--log.level", "error")

    assert shown.returncode == 0
    assert shown.stdout.count("\ngpu_up{") == 2
    assert "gpu_exporter_simulated 1.0" in shown.stdout


def test_capture_without_a_driver_says_so(tmp_path: Path) -> None:
    done = run("capture", str(tmp_path / "x.json"), "--capture.duration", "1s", LD_LIBRARY_PATH="/nowhere")

    assert done.returncode == 1
    assert done.stderr.startswith("gpu-exporter: capture: driver not available (LIBRARY_NOT_FOUND): ")
    assert done.stderr.count("\n") == 1


def test_sigterm_ends_it_with_status_0(tmp_path: Path) -> None:
    with exporter(tmp_path, "--simulate", "2xH100") as running:
        assert running.terminate(within=2) == 0


MODELS = ("8xH200", "8xH100", "4xA100-mig", "4xA100", "4xL40S", "2xA10", "4xT4", "4xV100", "8xB200", "1xRTX4090")
QUICK = ("--log.level", "error", "--sample.interval", "100ms")


@pytest.mark.parametrize("model", MODELS)
def test_promtool_accepts_every_simulated_model(model: str) -> None:
    text = run("once", "--simulate", model, *QUICK).stdout.encode()

    done = subprocess.run([program("promtool"), "check", "metrics"], input=text, capture_output=True, check=False)

    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_a_recording_is_written_wherever_the_file_stands_among_the_options(tmp_path: Path) -> None:
    file = tmp_path / "c.json"

    done = run("capture", "--simulate", "1xH200", str(file), "--capture.duration", "1s", "--log.level", "error")

    assert (done.returncode, file.exists()) == (0, True)


@pytest.mark.parametrize("name", ["once", "check", "report", "capture", "serve"])
def test_help_shows_defaults_as_they_are_typed_and_every_flag(name: str) -> None:
    text = command.run(name, "--help-all").stdout

    assert "--version" in text
    assert "Price(" not in text
    assert "604800" not in text
    assert "--[no-]" in text


def without(redirected: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command with standard streams closed, or sent elsewhere, as a shell does it."""
    script = f'exec "$@" {redirected}'
    return subprocess.run(
        ["sh", "-c", script, "sh", *COMMAND, *arguments],
        capture_output=True, text=True, timeout=60, cwd=ROOT, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["once", "--simulate", "1xT4", *QUICK], 1),
        (["check", "--simulate", "1xT4"], 3),
        (["--version"], 1),
        (["--help"], 1),
        (["once", "--help"], 1),
        (["check", "--version"], 3),
    ],
)
@pytest.mark.parametrize(("output", "why"), [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")])
def test_output_that_is_closed_or_full_is_one_line(arguments: list[str], status: int, output: str, why: str) -> None:
    done = without(output, *arguments)

    assert (done.returncode, done.stderr) == (
        status,
        f"gpu-exporter: standard output cannot be written: {why}\n",
    )


@pytest.mark.parametrize(("name", "status"), [("once", 2), ("check", 3)])
@pytest.mark.parametrize("messages", ["2>&-", "2>/dev/full"])
def test_a_wrong_option_has_its_status_where_nobody_can_be_told(name: str, status: int, messages: str) -> None:
    assert without(messages, name, "--frobnicate").returncode == status


@pytest.mark.parametrize("streams", ["2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_it_serves_where_nobody_reads_its_messages(tmp_path: Path, streams: str) -> None:
    with exporter(
        tmp_path, "--simulate", "1xT4", command=("sh", "-c", f'exec "$@" {streams}', "sh", *COMMAND)
    ) as running:
        running.until("the GPU", "gpu_up", 1.0)


@pytest.mark.parametrize(("name", "status"), [("once", 2), ("check", 3)])
def test_an_environment_variable_that_sets_nothing_is_refused(name: str, status: int) -> None:
    done = run(name, GPU_EXPORTER_WEB_LISTEN_ADRESS=":1")

    assert done.returncode == status
    assert "GPU_EXPORTER_WEB_LISTEN_ADRESS" in done.stderr
    assert "did you mean GPU_EXPORTER_WEB_LISTEN_ADDRESS" in done.stderr


def test_systemd_hears_that_the_exporter_serves_samples_and_stops(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(30)
        environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}
        with exporter(tmp_path, "--simulate", "2xT4", environment=environment) as running:
            heard = [systemd.recv(4096).decode() for _ in range(2)]
            running.terminate(10)
            while not heard[-1].startswith("STOPPING=1"):
                heard.append(systemd.recv(4096).decode())

    assert heard[0].startswith("READY=1\nSTATUS=")
    assert any(line == "WATCHDOG=1\nSTATUS=2 of 2 GPUs reachable" for line in heard)
