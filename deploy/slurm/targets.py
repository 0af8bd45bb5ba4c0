#!/usr/bin/env python3
"""Targets for Prometheus's file_sd_configs, from Slurm's own list of nodes. Needs Python 3.8 and scontrol.

    targets.py /etc/prometheus/targets/gpu-exporter.json --powered-down /etc/prometheus/targets/powered-down.json

Run it from cron or a timer on a host that has scontrol. The file is replaced in one move and only when it changes; when
scontrol fails or shows no node it is left as it is and the status is 1, so that neither a restart of slurmctld nor
PrivateData=nodes takes the targets away.
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
_AWAY = frozenset({"FUTURE", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "CLOUD_DOWN", "POWER"})
"""Nodes that are meant to be off: no target, so no alert. Before Slurm 21.08 they are IDLE+POWER, or marked."""
_AWAY_FLAG = re.compile(r"[~#%]")


def nodes(text: str) -> Iterable[Mapping[str, str]]:
    """Fields of each node in what `scontrol -o show nodes` prints: one a line."""
    for line in text.splitlines():
        found = dict(reversed(_FIELD.findall(line)))
        if found.get("NodeName"):
            yield found


def targets(text: str, port: int, *, away: bool = False) -> Sequence[Mapping[str, object]]:
    """One entry per node with GPUs that is meant to be on, or that is `away`, with its name and first partition."""
    return [
        {
            "targets": [_address(node.get("NodeAddr") or node["NodeName"], port)],
            "labels": {"node": node["NodeName"], "slurm_partition": node.get("Partitions", "").split(",")[0]},
        }
        for node in sorted(nodes(text), key=lambda each: each["NodeName"])
        if _GPU.search(node.get("Gres", "")) and _away(node.get("State", "")) == away
    ]


def _away(state: str) -> bool:
    return bool(_AWAY_FLAG.search(state)) or not _AWAY.isdisjoint(re.split(r"[+*!$@^-]", state))


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def write(file: Path, content: str) -> bool:
    """Replace the file unless it has this content; whether it was replaced."""
    if file.exists() and file.read_bytes() == content.encode():
        return False
    new = file.with_name(f".{file.name}.new")
    new.write_text(content)
    new.chmod(0o644)
    new.replace(file)
    return True


def _shown(scontrol: str) -> str:
    """Raises OSError, or subprocess.SubprocessError."""
    # With -a: else nodes of partitions that are hidden, or whose AllowGroups the user is not of, are not shown.
    command = [scontrol, "-a", "-o", "show", "nodes"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=60, check=True)
    if not any(nodes(done.stdout)):
        raise OSError(f"{scontrol} shows no node")
    return done.stdout


def _json(entries: Sequence[Mapping[str, object]]) -> str:
    return json.dumps(entries, indent=1) + "\n"


def _port(text: str) -> int:
    port = int(text) if text.isascii() and text.isdigit() else 0
    if not 0 < port < 1 << 16:
        raise argparse.ArgumentTypeError(f"expected a port from 1 to 65535, got {text!r}")
    return port


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="file of Prometheus's file_sd_configs to keep")
    parser.add_argument(
        "--powered-down", type=Path, metavar="FILE", help="file to keep of the nodes that are switched off on purpose"
    )
    parser.add_argument("--port", type=_port, default=9836, help="port of the exporters (default: 9836)")
    parser.add_argument("--scontrol", default="scontrol", help="scontrol to ask")
    given = parser.parse_args()
    if given.powered_down and given.powered_down.resolve() == given.file.resolve():
        parser.error(f"--powered-down: expected another file than {given.file}")
    try:
        shown = _shown(given.scontrol)
        # Those that are off first: a node that is in neither file for a moment is missed.
        if given.powered_down:
            write(given.powered_down, _json(targets(shown, given.port, away=True)))
        write(given.file, _json(targets(shown, given.port)))
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"targets: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
