"""Which of the collectors' calls an ordinary user may make: a program that becomes one before it opens the driver.

Reads a JSON list of [function, arguments] from standard input, writes {label: outcome}. Argument: the GPU's index.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
from typing import Any

from exporter.driver.interface import DriverError
from exporter.driver.nvml import NvmlDriver
from tests.hardware.calls import label, outcome

_NOBODY = 65534


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def main(index: int) -> None:
    calls = [(function, _tuples(args)) for function, args in json.load(sys.stdin)]
    with contextlib.suppress(OSError):
        ctypes.CDLL("libnvidia-ml.so.1")  # mapped while its folder may still be read
    os.setgroups([])
    os.setgid(_NOBODY)
    os.setuid(_NOBODY)
    driver = NvmlDriver()
    try:
        driver.open()
        device = next(device for device in driver.devices() if device.index == index)
        found = {label(call): outcome(device, call) for call in calls}
    except DriverError as error:
        found = {"the driver": error.code}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]))
