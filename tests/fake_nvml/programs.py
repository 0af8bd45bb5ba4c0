"""Small programs on the fake driver: what NvmlDriver answers in an interpreter of its own."""

from __future__ import annotations

from typing import Any

OPEN = """
import os, threading, time
from dataclasses import replace
from pathlib import Path
from exporter.driver.interface import DriverError, UnsupportedError
from exporter.driver.nvml import NvmlDriver
from exporter.driver.nvml.binding import nvml
from tests.fake_nvml.scenario import Scenario, mig_instance, node, uuid

scenario = lambda **changes: Scenario(Path(os.environ["FAKE_NVML_SCENARIO"]), {**node(), **changes.get("values", {})})
driver = NvmlDriver()

def shown(call, *args):
    try:
        return call(*args)
    except DriverError as error:
        return f"{type(error).__name__} {error.code}"
"""

READ = f"{OPEN}\ndriver.open()\ngpus = driver.devices()\ngpu = gpus[0]\n"


def answers(fake: Any, *calls: tuple[Any, ...]) -> list[str]:
    """What the first GPU answers to each call."""
    return fake.python(f"{READ}\nfor call in {calls!r}: print(shown(gpu.call, *call))").splitlines()


def printed(fake: Any, code: str, start: str = READ) -> list[str]:
    return fake.python(f"{start}\n{code}").splitlines()
