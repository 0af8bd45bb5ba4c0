"""Scrape targets that are exporters of this project: found by the series they serve, whatever their job is called."""

from __future__ import annotations

from deploy.prometheus.recordings_common import by, record

POWERED_DOWN = 'max by (cluster, node) (up{job="slurm-powered-down"})'
"""Nodes that Slurm has switched off to save power, as targets.py lists them; their addresses may be others then."""
_MEMORY = "6h"
"""Time for which a target stays known while rules are not evaluated. Else it is known until discovery drops it."""
_TARGET = ("job", "instance")
_SAME_TARGET = "on (cluster, job, instance)"
_SERVED = 'gpu_exporter_build_info or gpu_up{gpu="0"}'
"""The first GPU of a node stands for all."""
_KNOWN = f"({_SERVED} or last_over_time(target:gpu_exporter:last[{_MEMORY}]) == 1)"
_OTHERWISE = f"unless {_SAME_TARGET} ({_SERVED})"

OTHERS = record(
    "target:gpu_exporter_other:last",
    _TARGET,
    f"""\
max {by(_TARGET)} (
  (up == 1 {_OTHERWISE} and on (cluster, job) ({_SERVED}))
  or
  (target:gpu_exporter_other:last and {_SAME_TARGET} up {_OTHERWISE})
)""",
    "1 for each target of another program in a scrape job that has exporters, also while it is down.",
)
TARGETS = record(
    "target:gpu_exporter:last",
    _TARGET,
    f"""\
max {by(_TARGET)} (
  up * 0 + 1 and {_SAME_TARGET} {_KNOWN}
  unless {_SAME_TARGET} (up == 1 {_OTHERWISE} or {OTHERS.record})
)
or
max {by(_TARGET)} (up == 0 and on (cluster, job) {_KNOWN} unless on (cluster, job) {OTHERS.record})""",
    "1 for each scrape target that is an exporter, also while it is down; 0 if it has not answered yet, in a job of "
    "exporters only.",
)


def exporters(matchers: str = "") -> str:
    """Return `up` of the exporters, one series per target."""
    selector = f"up{{{matchers}}}" if matchers else "up"
    return f"({selector} and {_SAME_TARGET} {TARGETS.record})"


def chosen(matchers: str) -> str:
    """Return `up` of a few exporters, for an annotation: each alert asks again, and must not ask for all targets."""
    return f"(up{{{matchers}}} and {_SAME_TARGET} {TARGETS.record}{{{matchers}}})"
