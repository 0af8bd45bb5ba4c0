"""Each recorded set of driver answers gives exactly the samples in tests/captures/expected.txt, and obeys physics.

`pytest tests/contract/test_captures.py --update` writes that file anew. Review the difference.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from exporter.collectors import COLLECTORS
from exporter.core.families import Block, Values
from exporter.exposition.page import Renderer
from exporter.ledger.states import resolve_limits
from exporter.ledger.states.activity import communication_claim
from exporter.ledger.states.state import Evidence, Signals
from exporter.sampling.blocks import device_blocks
from exporter.sampling.gpus import Gpu
from exporter.sampling.reader import LastAnswers, TargetState, read_gpu
from exporter.sampling.readings import signals
from exporter.tools.capture.replay import load
from tests.captures import simulated
from tests.exporter_process import Metrics, parse
from tests.golden import compare
from tests.stack import program

FOLDER = Path(__file__).resolve().parents[1] / "captures"
CAPTURES = sorted(simulated.folder().glob("*.json"))
START = 1_700_000_000.0
SECONDS = 6


def replay(path: Path) -> list[Block]:
    """Return what the collectors make of a capture after a few sampling cycles, one a second."""
    last = float(SECONDS - 1)
    return [block for gpu in read(path) for block in device_blocks(gpu, last, stale=10.0)]


def read(path: Path) -> list[Gpu]:
    """Return the GPUs of a capture after the last cycle."""
    now = [START]
    driver = load(path, lambda: now[0])
    driver.open()
    states: dict[str, dict[str, TargetState]] = {}
    memories: dict[str, LastAnswers] = {}
    gpus: list[Gpu] = []
    for second in range(SECONDS):
        now[0] = START + second
        gpus = []
        for device in driver.devices():
            memory = memories.setdefault(device.uuid, {})
            found = read_gpu(device, states.get(device.uuid, {}), COLLECTORS, now[0], float(second), memory)
            states[device.uuid] = dict(found.states)
            gpus.append(Gpu(device, found.states, answered=float(second), reading=True))
    return gpus


def gpu_signals(path: Path) -> Signals:
    """Return what the ledger is given for the only GPU of a capture in the last cycle."""
    (gpu,) = read(path)
    found = signals(gpu, None, None, float(SECONDS - 1))
    assert found is not None
    return found


def expose(path: Path) -> str:
    """Return the page of a capture, without the metrics of this process."""
    return Renderer().render(replay(path), "")[1].decode().partition("# HELP python_")[0]


def listing(path: Path) -> str:
    """Return all samples of a capture: one line for each GPU or instance, below it one line for each family.

    A line has the values of the family's own labels before each value.
    """
    found: dict[Values, list[str]] = {}
    for block in replay(path):
        samples = "  ".join(f"{','.join(each.labels)}={float(each.value)!r}" for each in block.samples)
        found.setdefault(block.prefix, []).append(f"    {block.family.name}  {samples}\n")
    return "".join([f"{path.stem}\n", *(f"  {' '.join(device)}\n{''.join(found[device])}" for device in found)])


@pytest.fixture(params=CAPTURES, ids=lambda path: path.stem)
def capture(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


def test_there_are_captures() -> None:
    assert CAPTURES


def test_samples_of_all_captures_are_the_expected_ones(request: pytest.FixtureRequest) -> None:
    compare(FOLDER / "expected.txt", "".join(map(listing, CAPTURES)), request)


def test_copies_over_pcie_on_a_real_gpu_are_communication() -> None:
    """To the driver it is busy, by GPM no SM is active, and the PCIe byte counters wrap seven times a second."""
    found = gpu_signals(FOLDER / "vm__H200__580.159.04__pcie.json")

    assert (found.busy, found.sm_active) == (pytest.approx(0.99, abs=0.01), pytest.approx(0.0, abs=0.001))
    assert found.link_activity == pytest.approx(0.48, abs=0.01)
    assert communication_claim(Evidence(found, found.busy or 0.0), resolve_limits({})) == 1.0


def test_promtool_accepts_the_exposition(capture: Path) -> None:
    text = expose(capture).encode()

    done = subprocess.run([program("promtool"), "check", "metrics"], input=text, capture_output=True, check=False)

    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_exposition_obeys_physics(capture: Path) -> None:
    found = parse(expose(capture))

    assert found.values
    for (name, labels), value in found.values.items():
        where = f"{name}{dict(labels)}"
        assert value == value, f"{where} is NaN"  # noqa: PLR0124 - that is how NaN is told
        assert value >= 0 or name == "gpu_temperature_threshold_margin_celsius", where
        if name.endswith("_ratio") and "fan" not in name:
            assert value <= 1, where
    for uuid in _uuids(found):
        _check_memory(found, uuid)
        _check_power(found, uuid)


def _uuids(found: Metrics) -> set[str]:
    return {dict(labels)["uuid"] for name, labels in found.values if name == "gpu_info"}


def _check_memory(found: Metrics, uuid: str) -> None:
    parts = [found.one(f"gpu_memory_{part}_bytes", uuid=uuid) for part in ("used", "free", "reserved")]
    total = found.one("gpu_memory_total_bytes", uuid=uuid)
    if total is not None and None not in parts:
        assert sum(part or 0 for part in parts) == total


def _check_power(found: Metrics, uuid: str) -> None:
    power, limit = found.one("gpu_power_watts", uuid=uuid), found.one("gpu_power_limit_watts", uuid=uuid)
    if power is not None and limit is not None:
        assert power <= limit * 1.1
