#!/usr/bin/env python3
"""Targets for Prometheus's file_sd_configs, from Slurm's own list of nodes. Needs nothing but Python and scontrol.

    targets.py /etc/prometheus/targets/gpu-exporter.json

Run it from cron or a timer on a host that has scontrol. The file is replaced in one move and only when it changes; when
scontrol fails it is left as it is and the status is 1, so that a restart of slurmctld does not take the targets away.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

_FIELD = re.compile(r"(?:^|\s)(NodeName|NodeAddr|NodeHostName|Gres|State|Partitions)=(\S*)")
_GPU = re.compile(r"(?:^|,)gpu(?=[:,]|$)")
_AWAY = frozenset({"FUTURE", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "CLOUD_DOWN"})
"""Nodes that are meant to be off: no target, so no alert."""


def nodes(text: str) -> Iterable[Mapping[str, str]]:
    """Fields of each node in what `scontrol -o show nodes` prints: one a line."""
    for line in text.splitlines():
        found = dict(reversed(_FIELD.findall(line)))
        if found.get("NodeName"):
            yield found


def targets(text: str, port: int) -> Sequence[Mapping[str, object]]:
    """One entry per node with GPUs that is meant to be on, with its name and first partition as labels."""
    return [
        {
            "targets": [f"{node.get('NodeAddr') or node['NodeName']}:{port}"],
            "labels": {"node": node["NodeName"], "slurm_partition": node.get("Partitions", "").split(",")[0]},
        }
        for node in sorted(nodes(text), key=lambda each: each["NodeName"])
        if _GPU.search(node.get("Gres", "")) and _AWAY.isdisjoint(re.split(r"[+*~#!%$@^-]", node.get("State", "")))
    ]


def write(file: Path, content: str) -> bool:
    """Replace the file unless it has this content; whether it was replaced."""
    if file.exists() and file.read_text() == content:
        return False
    new = file.with_name(f".{file.name}.new")
    new.write_text(content)
    new.chmod(0o644)
    new.replace(file)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="file of Prometheus's file_sd_configs to keep")
    parser.add_argument("--port", type=int, default=9836, help="port of the exporters (default: 9836)")
    parser.add_argument("--scontrol", default="scontrol", help="scontrol to ask")
    given = parser.parse_args()
    try:
        shown = subprocess.run(
            [given.scontrol, "-o", "show", "nodes"], capture_output=True, text=True, timeout=60, check=True
        ).stdout
        found = targets(shown, given.port)
        write(given.file, json.dumps(found, indent=1) + "\n")
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"targets: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
