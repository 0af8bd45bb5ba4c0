from __future__ import annotations

import sys
from pathlib import Path

from tests.hardware import smi
from tests.stack import poll

PROGRAM = """#!{python}
import sys, time
assert "--id=3" in sys.argv and "--loop-ms=200" in sys.argv
print("120.5, [N/A], 40, 1024, 33, 1980, 700.00")
time.sleep(60)
"""


def test_lines_of_nvidia_smi() -> None:
    assert smi.parse("120.1, [N/A], 40", ("power", "temperature", "use")) == {"power": 120.1, "use": 40.0}
    assert smi.parse("Unable to determine the device handle", ("power", "use")) == {}


def test_reading_arrives_while_the_program_still_runs(tmp_path: Path) -> None:
    """Nothing flushes the line: into a pipe it would come when the program ends."""
    command = tmp_path / "nvidia-smi"
    command.write_text(PROGRAM.format(python=Path(sys.executable).resolve()))
    command.chmod(0o755)

    with smi.watching(3, str(command)) as found:
        assert found is not None
        poll("a reading", lambda: found.get("power_limit"), 30)

    assert {name: value for name, ((_, value),) in found.items()} == {
        "power_average": 120.5, "utilization": 40.0, "memory_used": 1024.0, "temperature": 33.0, "sm_clock": 1980.0,
        "power_limit": 700.0,
    }  # fmt: skip


def test_without_nvidia_smi_there_is_nothing() -> None:
    with smi.watching(0, None) as found:
        assert found is None
