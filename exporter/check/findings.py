"""The finds that need more than one series: counts, links, temperatures, XIDs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from exporter.check.facts import Facts
from exporter.check.rule import Cause, Find, Limits
from exporter.collectors.xid import CATALOGUE

_NO_DRIVER = frozenset({"LIBRARY_NOT_FOUND", "DRIVER_NOT_LOADED"})
_AFTER_KILL = "45"
"""The driver clearing up after a program that was killed: it comes with every cancelled job."""


def gpu_less(facts: Facts, limits: Limits) -> bool:
    """Whether this is a node without GPUs: nothing on the PCI bus, no driver, and none expected."""
    pci = facts.value("gpu_devices", source="pci")
    error = facts.of("gpu_exporter_driver_error")
    no_driver = bool(error) and error[0].labels.get("error") in _NO_DRIVER
    return pci == 0 and no_driver and not limits.gpus


_SAID = {"LIBRARY_NOT_FOUND": "LIBRARY_NOT_FOUND (libnvidia-ml.so.1 is not where the dynamic linker looks)"}

_HANGS = "NOT_OPENED"
"""The driver was asked to open and has not answered yet."""


def driver_error(facts: Facts, limits: Limits) -> Iterable[Cause]:
    if gpu_less(facts, limits):
        return
    for series in facts.of("gpu_exporter_driver_error"):
        if series.value and series.labels["error"] != _HANGS:
            code = series.labels["error"]
            yield "", {"error": _SAID.get(code, code)}


def driver_hangs(facts: Facts, _limits: Limits) -> Iterable[Cause]:
    if any(series.value for series in facts.of("gpu_exporter_driver_error", error=_HANGS)):
        yield "", {}


def missing(facts: Facts, limits: Limits) -> Iterable[Cause]:
    """Fewer GPUs by the driver than on the PCI bus, or than expected; said once, by the larger gap."""
    driver, pci = facts.value("gpu_devices", source="driver"), facts.value("gpu_devices", source="pci")
    wanted, by = (limits.gpus, "expected") if limits.gpus > (pci or 0) else (pci or 0, "on the PCI bus")
    if driver is not None and driver < wanted:
        yield "", {"driver": f"{driver:g}", "wanted": f"{wanted:g}", "by": by}


def down(facts: Facts, _limits: Limits) -> Iterable[Cause]:
    for series in facts.of("gpu_up"):
        if series.value == 0:
            yield series.gpu, {}


def narrow(facts: Facts, _limits: Limits) -> Iterable[Cause]:
    """The width does not fall while the GPU idles, the generation does: only the width is judged."""
    for series in facts.of("gpu_pcie_link_width"):
        best = facts.value("gpu_pcie_link_max_width", uuid=series.labels["uuid"])
        if best is not None and series.value < best:
            yield series.gpu, {"width": f"{series.value:g}", "best": f"{best:g}"}


def links_down(facts: Facts, _limits: Limits) -> Iterable[Cause]:
    """Some links up and some down; a card without a bridge has them all down, and nothing is wrong with it."""
    links: dict[str, list[tuple[int, bool]]] = defaultdict(list)
    for series in facts.of("gpu_nvlink_link_up"):
        links[series.gpu].append((int(series.labels["link"]), bool(series.value)))
    for gpu, states in links.items():
        dead = sorted(link for link, up in states if not up)
        if dead and len(dead) < len(states):
            yield gpu, {"links": ", ".join(map(str, dead)), "count": len(states)}


def hot(facts: Facts, limits: Limits) -> Iterable[Cause]:
    """By the margin where the driver tells it, else by the slowdown temperature."""
    for series in facts.of("gpu_temperature_celsius", sensor="gpu"):
        uuid = series.labels["uuid"]
        margin = facts.value("gpu_temperature_margin_celsius", uuid=uuid)
        slowdown = facts.value("gpu_temperature_threshold_celsius", uuid=uuid, threshold="slowdown")
        if margin is None and slowdown is not None:
            margin = slowdown - series.value
        if margin is not None and margin < limits.margin:
            yield series.gpu, {"margin": f"{margin:g}", "celsius": f"{series.value:g}", "limit": f"{limits.margin:g}"}


def fan_stands(facts: Facts, limits: Limits) -> Iterable[Cause]:
    """Cards stop their fans when cool, so a fan that stands counts only on a warm GPU."""
    for series in facts.of("gpu_temperature_celsius", sensor="gpu"):
        if series.value > limits.hot:
            uuid = series.labels["uuid"]
            for fan in facts.of("gpu_fan_speed_rpm", uuid=uuid) or facts.of("gpu_fan_speed_ratio", uuid=uuid):
                if fan.value == 0:
                    yield series.gpu, {"fan": fan.labels["fan"], "celsius": f"{series.value:g}"}


def xids(*classes: str) -> Find:
    """XIDs of these classes within the window."""

    def find(facts: Facts, limits: Limits) -> Iterable[Cause]:
        for series in facts.of("gpu_xid_last_timestamp_seconds"):
            xid, ago = series.labels["xid"], facts.time - series.value
            if CATALOGUE.get(int(xid), "unknown") in classes and xid != _AFTER_KILL and ago <= limits.xid_window:
                yield series.gpu, {"xid": xid, "minutes": f"{max(0.0, ago) / 60:.0f}"}

    return find


def collector_failed(facts: Facts, _limits: Limits) -> Iterable[Cause]:
    """Not told of a node whose GPUs do not answer: it follows from that."""
    if facts.of("gpu_exporter_driver_error") or any(series.value == 0 for series in facts.of("gpu_up")):
        return
    for series in facts.of("gpu_scrape_collector_success"):
        if series.value == 0:
            yield "", {"collector": series.labels["collector"]}
