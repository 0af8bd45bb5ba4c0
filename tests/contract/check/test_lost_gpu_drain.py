"""`gpu-exporter check --drain` of a node whose GPU is away: drained after two looks, and resumed when it is back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.contract.check.node import CheckedNode
from tests.unit.check.nodes import WELL as WELL_LONG_AGO
from tests.unit.check.nodes import fault

_FRESH = [line for line in WELL_LONG_AGO.splitlines() if not line.startswith("gpu_exporter_last_sample")]
WELL = "\n".join(_FRESH) + "\n"
AWAY = WELL.replace('gpu_devices{source="driver"} 1', 'gpu_devices{source="driver"} 0')
SCONTROL = """\
#!/bin/sh
# One node of slurmctld: `show node` prints its state, `update` stores what was given.
cd "$(dirname "$0")" || exit 1
case "$1" in
show) printf 'NodeName=n1\\n   State=%s\\n   Reason=%s [root@2026-11-21T12:00:00]\\n' "$(cat state)" "$(cat reason)" ;;
update)
    for word; do
        case "$word" in
        State=DRAIN) echo IDLE+DRAIN >state ;;
        State=RESUME) echo IDLE >state; : >reason ;;
        Reason=*) printf '%s' "${word#Reason=}" >reason ;;
        esac
    done ;;
esac
"""


@pytest.fixture
def slurm(tmp_path: Path) -> Path:
    folder = tmp_path / "slurm"
    folder.mkdir()
    (folder / "state").write_text("IDLE")
    (folder / "reason").touch()
    (folder / "scontrol").write_text(SCONTROL)
    (folder / "scontrol").chmod(0o755)
    return folder


@pytest.fixture
def node(tmp_path: Path) -> CheckedNode:
    return CheckedNode(tmp_path, {})


def drain(slurm: Path) -> tuple[str, ...]:
    return "--drain", "--drain.node=n1", f"--slurm.scontrol={slurm / 'scontrol'}"


def shown(slurm: Path) -> tuple[str, str]:
    return (slurm / "state").read_text().strip(), (slurm / "reason").read_text()


@contextmanager
def serving(*pages: str) -> Iterator[str]:
    """Serve these pages one after the other, the last one for ever; yields the URL."""
    left = list(pages)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write((left.pop(0) if len(left) > 1 else left[0]).encode())

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_drain_of_gpu_that_is_back_at_the_second_look_does_nothing(node: CheckedNode, slurm: Path) -> None:
    with serving(AWAY, WELL) as url:
        outcome = node.check_url(url, *drain(slurm))

    assert outcome.status == 0
    assert shown(slurm) == ("IDLE", "")


def test_drain_of_gpu_away_at_two_looks_ends_after_three_good_checks(node: CheckedNode, slurm: Path) -> None:
    with serving(AWAY) as url:
        outcome = node.check_url(url, *drain(slurm))
    drained = shown(slurm)

    with serving(WELL) as url:
        for _ in range(3):
            node.check_url(url, *drain(slurm))

    assert outcome.status == 2
    assert drained == ("IDLE+DRAIN", "0 of 1 GPUs [gpu-exporter]")
    assert shown(slurm) == ("IDLE", "")


def test_drain_without_time_for_a_second_look_does_nothing(node: CheckedNode, slurm: Path) -> None:
    with serving(AWAY) as url:
        outcome = node.check_url(url, "--check.deadline=9s", *drain(slurm))

    assert outcome.status == 2
    assert shown(slurm) == ("IDLE", "")


def test_drain_for_latched_fault_stays_after_good_checks(node: CheckedNode, slurm: Path) -> None:
    with serving(f"{WELL}{fault('xid', 'XID 119', 'reset')}\n") as url:
        node.check_url(url, *drain(slurm))
    with serving(WELL) as url:
        for _ in range(3):
            node.check_url(url, *drain(slurm))

    assert shown(slurm) == ("IDLE+DRAIN", "GPU0 XID 119 [gpu-exporter: repair by hand]")


def test_drain_for_latched_loss_ends_after_three_good_checks(node: CheckedNode, slurm: Path) -> None:
    with serving(f"{AWAY}{fault('lost', 'GPU_IS_LOST', 'restart')}\n") as url:
        node.check_url(url, "--check.deadline=9s", *drain(slurm))
    drained = shown(slurm)
    with serving(WELL) as url:
        for _ in range(3):
            node.check_url(url, *drain(slurm))

    assert drained == ("IDLE+DRAIN", "GPU0 lost [gpu-exporter]")
    assert shown(slurm) == ("IDLE", "")


def test_drained_node_with_a_late_gpu_is_not_resumed_and_one_in_service_is_not_drained(
    node: CheckedNode, slurm: Path
) -> None:
    late = f"{WELL}{fault('gpu_slow', 'late answers', 'inspect')}\n"
    with serving(late) as url:
        outcome = node.check_url(url, *drain(slurm))
    in_service = shown(slurm)
    (slurm / "state").write_text("IDLE+DRAIN")
    (slurm / "reason").write_text("GPU0 lost [gpu-exporter: 2 good]")
    with serving(late) as url:
        node.check_url(url, *drain(slurm))

    assert (outcome.status, in_service) == (1, ("IDLE", ""))
    assert shown(slurm) == ("IDLE+DRAIN", "GPU0 lost [gpu-exporter: 2 good]")
