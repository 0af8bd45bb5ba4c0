#!/usr/bin/env python3
"""Mail each user, and each coordinator of an account, what they got in a month, with rank and trend.

    monthly.py [--month 2026-10] [--domain example.edu] [--dry-run]

The numbers are those of `gpu-exporter report --month`, with its options from the environment and from
/etc/default/gpu-exporter-report. Coordinators (PIs) are those of `sacctmgr`. Needs Python 3.8 and `mail`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Tuple  # noqa: UP035 - Python 3.8

_SETTINGS = Path("/etc/default/gpu-exporter-report")
_TIMEOUT = 300
_DAY = 86400


def last_month(now: float) -> str:
    today = time.gmtime(now)
    return time.strftime("%Y-%m", time.gmtime(now - today.tm_mday * _DAY))


def settings(text: str) -> Mapping[str, str]:
    """Return NAME=VALUE lines."""
    pairs = (line.partition("=") for line in text.splitlines() if re.match(r"[A-Z_]+=", line))
    return {name: value.strip("\"'") for name, _, value in pairs}


def output(*command: str) -> str:
    """Raises OSError, subprocess.SubprocessError."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=_TIMEOUT).stdout.decode()


def trend(row: Mapping[str, Any]) -> str:
    before = row["gpu_hours_before"]
    return f"{row['gpu_hours'] / before - 1:+.0%}" if before else ""


def text_of_user(row: Mapping[str, Any], users: int, month: str, currency: str) -> str:
    change = f", {trend(row)} to the month before" if trend(row) else ""
    lines = [
        f"GPU hours of {row['name']} in {month}: {row['gpu_hours']:.1f}{change}",
        f"Rank {row['rank']} of {users} users",
        f"Used by kernels: {row['used_hours']:.1f} h. Wasted: {row['wasted_hours']:.1f} h",
        *([f"Cost: {row['cost']:.2f} {currency}, wasted: {row['wasted_cost']:.2f} {currency}"] if row["cost"] else []),
    ]
    return "\n".join([*lines, "", f"Jobs with waste: gpu-exporter report --user {row['name']} --since 30d", ""])


def text_of_account(account: str, rows: Sequence[Mapping[str, Any]], month: str) -> str:
    lines = [
        f"GPU hours of account {account} in {month}: {sum(row['gpu_hours'] for row in rows):.1f}",
        "",
        f"{'Rank':>4}  {'User':<20}  {'GPU hours':>10}  {'Used':>10}  {'Wasted':>10}  {'Trend':>6}",
    ]
    for row in rows:
        hours = "  ".join(f"{row[name]:>10.1f}" for name in ("gpu_hours", "used_hours", "wasted_hours"))
        lines.append(f"{row['rank']:>4}  {row['name']:<20}  {hours}  {trend(row):>6}".rstrip())
    return "\n".join([*lines, "", f"With cost: gpu-exporter report --month {month} --team {account} --by user", ""])


def coordinators(text: str) -> Mapping[str, Sequence[str]]:
    """Return the coordinators by account, of `sacctmgr -nP show account withcoord format=account,coord`."""
    pairs = (line.partition("|") for line in text.splitlines())
    return {account: found for account, _, names in pairs if (found := [name for name in names.split(",") if name])}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--month", default=last_month(time.time()))
    parser.add_argument("--domain", default="", help="mail to NAME@DOMAIN; without it, to the local user")
    parser.add_argument("--dry-run", action="store_true", help="print the mails")
    given = parser.parse_args(arguments)
    if _SETTINGS.exists():
        os.environ.update({**settings(_SETTINGS.read_text(encoding="utf-8", errors="replace")), **os.environ})

    def rows_of(*team: str) -> Tuple[Sequence[Mapping[str, Any]], str]:  # noqa: UP006
        report = (os.environ.get("GPU_EXPORTER", "gpu-exporter"), "report", "--month", given.month, *team)
        found = json.loads(output(*report, "--by", "user", "--format", "json"))
        return [row for row in found["rows"] if row["name"]], found["currency"]

    try:
        rows, currency = rows_of()
        mails = [(row["name"], text_of_user(row, len(rows), given.month, currency)) for row in rows]
        shown = output("sacctmgr", "-nP", "show", "account", "withcoord", "format=account,coord")
        for account, names in coordinators(shown).items():
            team, _ = rows_of("--team", account)
            mails += [(name, text_of_account(account, team, given.month)) for name in names if team]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
        sys.stderr.write(f"monthly: {error}\n")
        return 1
    for name, text in mails:
        to = f"{name}@{given.domain}" if given.domain else name
        if given.dry_run or not re.fullmatch(r"[\w.][\w.-]*", name):
            sys.stdout.write(f"To: {to}\n{text}\n")
            continue
        subprocess.run(["mail", "-s", f"GPU hours in {given.month}", to], input=text.encode(), check=False)  # noqa: S607
    return 0


if __name__ == "__main__":
    sys.exit(main())
