"""What every part of a measurement works with: the driver, one GPU, loads, and a file for the results."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from exporter.collectors.base import AnyCollector, Tick
from exporter.driver.interface import Device, Driver, UnsupportedError
from tests.hardware.loads import Loads, Running

_SETTLE = 3.0
"""Seconds a load runs before it is measured: clocks and power have then settled enough."""
_SHORTEST = 0.3


@dataclass
class Bench:
    """`scale` shortens every measurement: 1 on a real GPU, less to see that the program runs."""

    driver: Driver
    index: int
    loads: Loads
    scale: float
    folder: Path
    part: str
    results: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def device(self) -> Device:
        return next(device for device in self.driver.devices() if device.index == self.index)

    def seconds(self, wanted: float) -> float:
        return max(_SHORTEST, wanted * self.scale)

    def rest(self, wanted: float) -> None:
        time.sleep(self.seconds(wanted))

    def keep(self, name: str, value: Any) -> None:
        """Put a result into the part's file at once: what comes after it may hang or crash."""
        self.results[name] = value
        path = self.folder / f"{self.part}.json"
        new = path.with_suffix(".new")
        new.write_text(json.dumps(self.results, indent=1) + "\n", encoding="utf-8")
        new.replace(path)

    @contextlib.contextmanager
    def load(self, kind: str, *numbers: float) -> Iterator[Running | None]:
        """A load that has settled; None, and said in the results, where there is none or it does not start."""
        with contextlib.ExitStack() as stack:
            running = None
            try:
                running = stack.enter_context(self.loads.start(kind, *numbers))
            except (RuntimeError, TimeoutError) as error:
                self._note("loads_failed", f"{kind}: {error}")
            else:
                if running is None:
                    self._note("loads_missing", kind)
            if running:
                self.rest(_SETTLE)
            yield running

    def _note(self, name: str, what: str) -> None:
        noted = self.results.get(name, [])
        self.keep(name, noted if what in noted else [*noted, what])


class Following:
    """A collector read over and over, as a cycle does: `read` gives its reading, None where the GPU has none."""

    def __init__(self, device: Device, collector: AnyCollector) -> None:
        self._device = device
        self._collector = collector
        self._previous: Any = None
        self._last: float | None = None

    def read(self) -> Any:
        now = time.time()
        tick = Tick(now, 0.0 if self._last is None else now - self._last)
        try:
            self._previous = self._collector.read(self._device, self._previous, tick)
        except UnsupportedError:
            return None
        self._last = now
        return self._previous


Reader = Callable[[], Mapping[str, float | None]]


@contextlib.contextmanager
def watch(read: Reader, every: float) -> Iterator[dict[str, list[tuple[float, float]]]]:
    """Histories of what `read` answers, read in a thread of its own; what was not known has no entry.

    An error of the reader ends the watching, and is raised at the end of the block.
    """
    histories: dict[str, list[tuple[float, float]]] = {}
    ended = threading.Event()
    errors: list[BaseException] = []

    def loop() -> None:
        try:
            while not ended.is_set():
                began = time.time()
                found = read()
                moment = (began + time.time()) / 2
                for name, value in found.items():
                    if value is not None:
                        histories.setdefault(name, []).append((moment, float(value)))
                ended.wait(max(0.0, every - (time.time() - began)))
        except BaseException as error:  # noqa: BLE001 - raised again where the watching ends
            errors.append(error)

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield histories
    finally:
        ended.set()
        thread.join()
    if errors:
        raise errors[0]
