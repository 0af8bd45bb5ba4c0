"""The status page: what is served now, and what `gpu-exporter check` reports of it."""

from __future__ import annotations

from exporter.config.load import Config
from exporter.core.clock import unix_time
from exporter.faults.facts import from_blocks
from exporter.faults.rule import Limits
from exporter.faults.stages import STAGES
from exporter.faults.verdict import judge
from exporter.sampling.snapshot import Snapshot
from exporter.web.history import History
from exporter.web.status import Site, page


def made(node: str, settings: Config, snapshot: Snapshot, history: History) -> str:
    site = Site(node, settings["web.telemetry-path"], settings["web.runbook-url"])
    facts = from_blocks(snapshot.blocks, unix_time())
    limits = {series.labels["uuid"]: series.value for series in facts.of("gpu_power_limit_watts")}
    report = judge(facts, Limits(), STAGES["periodic"].left_out)  # jobs run: what they hold is no fault
    return page(site, snapshot, report, limits, history)
