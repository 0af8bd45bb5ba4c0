"""`make scale`: what a cluster of a thousand nodes asks of one Prometheus with the shipped rules and dashboards.

The exporters are copies of a few simulated nodes; Prometheus, the rules and the queries are the real ones. Figures are
of this machine; those of CPU time hold on a busy one, too. Rules over hours find minutes here: what they read more of
later is not in the figures. Ends with status 1 where a rule or a query fails, or a target does not answer.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.dashboards.reader import Timing
from tests.scale.cluster import RULES, SCRAPE_SECONDS, Scraping, exporters, scraped
from tests.scale.measure import SLOW_SECONDS, RuleGroup, cpu_per_minute, dashboards, load, rule_groups, up
from tests.stack import ROOT

GPUS = 8
_SLOWEST = 12
_CPU_MINUTES = 5
"""The longest interval of a group of rules."""
_FILES = ("gpu-recording.yaml", "gpu-alerts.yaml")


def main() -> int:
    parser = argparse.ArgumentParser(prog="scale", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000, help="nodes of 8 GPUs (default 1000; about 7 MiB each)")
    parser.add_argument("--minutes", type=int, default=8, help="how long they are scraped first (default 8)")
    parser.add_argument("--before", default="", metavar="REVISION", help="measure the rules of this revision, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpu-scale-") as folder, exporters() as port:
        say(f"{options.nodes} nodes of {GPUS} GPUs, scraped every {SCRAPE_SECONDS} s")
        before = _rules_of(options.before, Path(folder)) if options.before else ()
        with scraped(options.nodes, port, Path(folder)) as scraping:
            url = scraping.url
            _wait(options.minutes)
            failures = [*_load(url, options.nodes), *_rules(tuple(rule_groups(url)))]
            now = int(time.time())
            _rules_cpu(scraping, options.nodes, before)
            scraping.rest()
            failures += _queries(tuple(dashboards(url, now, options.minutes)))
    for failure in failures:
        say(f"FAILED  {failure}")
    return 1 if failures else 0


def _wait(minutes: int) -> None:
    """Rates over five minutes need as many; says how far it is."""
    for left in range(minutes, 0, -1):
        say(f"  {left} min until figures")
        time.sleep(60)


def _load(url: str, nodes: int) -> Sequence[str]:
    found = load(url, 2 * SCRAPE_SECONDS)
    answering, slowest = up(url)
    series = found["prometheus_tsdb_head_series"]
    rows = (
        ("targets that answer", f"{answering} of {nodes}, the slowest in {slowest:.2f} s"),
        ("series", f"{series / 1e6:.2f} M, {series / nodes / GPUS:.0f} per GPU with recorded ones"),
        ("samples", f"{found['prometheus_tsdb_head_samples_appended_total:rate'] / 1e3:.0f} k/s"),
        ("memory", f"{found['process_resident_memory_bytes'] / 2**30:.1f} GiB"),
        ("CPU", f"{found['process_cpu_seconds_total:rate']:.2f} cores"),
    )
    say("\nPrometheus")
    for name, figure in rows:
        say(f"  {name:<24} {figure}")
    return () if answering == nodes else (f"{nodes - answering} targets do not answer",)


def _rules(groups: Sequence[RuleGroup]) -> Sequence[str]:
    say("\nRule groups                      rules   last evaluation")
    for group in groups:
        share = f"{group.seconds:8.2f} s = {group.seconds / group.interval:6.1%}"
        say(f"  {group.name:<30} {len(group.rules):>5}  {share} of {group.interval:5.0f} s")
    rules = [rule for group in groups for rule in group.rules]
    say(f"\n{len(rules)} rules, the slowest")
    for rule in sorted(rules, key=lambda rule: -rule.seconds)[:_SLOWEST]:
        say(f"  {rule.seconds:6.2f} s  {rule.name}")
    return [f"rule {rule.name}: {rule.error}" for rule in rules if rule.error]


def _rules_of(revision: str, folder: Path) -> Sequence[Path]:
    """The rule files of a revision of this repository."""
    for name in _FILES:
        command = ["git", "show", f"{revision}:{(RULES / name).relative_to(ROOT)}"]
        text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
        (folder / f"before-{name}").write_bytes(text)
    return [folder / f"before-{name}" for name in _FILES]


def _rules_cpu(scraping: Scraping, nodes: int, before: Sequence[Path]) -> None:
    """What Prometheus takes with rules, less what it takes without them; their wall time tells of the machine."""
    found = {"now": cpu_per_minute(scraping.url, _CPU_MINUTES)}
    for name, files in (("before", before), ("none", ())):
        if files or name == "none":
            scraping.use_rules(files)
            time.sleep(60)  # series that are new, and states of alerts that are restored
            found[name] = cpu_per_minute(scraping.url, _CPU_MINUTES)
    scrapes = found.pop("none")
    say(f"\nCPU seconds a minute: scrapes {scrapes:.1f}")
    for name, both in found.items():
        rules = both - scrapes
        say(f"  rules {name:<8} {rules:5.1f}, for 1,000 such nodes {rules / nodes * 1000:.1f}")


def _queries(timings: Sequence[tuple[str, Timing]]) -> Sequence[str]:
    slow = sum(timing.seconds > SLOW_SECONDS for _, timing in timings)
    say(f"\n{len(timings)} queries of the dashboards in CPU seconds, {slow} over {SLOW_SECONDS:g} s; the slowest")
    for name, timing in sorted(timings, key=lambda each: -each[1].seconds)[:_SLOWEST]:
        say(f"  {timing.seconds:6.2f} s  {timing.series:>6} series  {name} / {timing.panel} / {timing.ref}")
    return [f"{name} / {timing.panel} / {timing.ref}: {timing.refused}" for name, timing in timings if timing.refused]


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
