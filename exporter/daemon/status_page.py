"""The status page: what is served now, and what `gpu-exporter check` reports of it."""

from __future__ import annotations

from exporter.core.clock import unix_time
from exporter.faults.facts import from_blocks
from exporter.faults.rule import Limits
from exporter.faults.rules import STAGES
from exporter.faults.verdict import judge
from exporter.sampling.snapshot import Snapshot
from exporter.web.config import WebConfig
from exporter.web.history import History
from exporter.web.status import Site, page


def made(node: str, config: WebConfig, snapshot: Snapshot, history: History) -> str:
    site = Site(node, config.telemetry_path, config.runbook_url)
    facts = from_blocks(snapshot.blocks, unix_time())
    limits = {series.labels["uuid"]: series.value for series in facts.of("gpu_power_limit_watts")}
    report = judge(facts, Limits(), STAGES["periodic"].left_out)  # jobs run: what they hold is no fault
    return page(site, snapshot, report, limits, history)
