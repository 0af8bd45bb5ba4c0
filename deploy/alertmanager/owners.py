#!/usr/bin/env python3
"""Who hears of a workload: a table of the site, made into a template Alertmanager takes addresses and channels from.

    owners.py owners.csv > /etc/alertmanager/owners.tmpl

Each line is `user,NAME,ADDRESS` or `namespace,NAME,CHANNEL` (no `#` before the channel); `*` is everybody else, and
`{name}` in its last column stands for the name. Needs nothing but Python.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

_CELLS = 3
_DEFAULTS = {"user": "{name}", "namespace": "{name}"}
_TARGET = {"user": re.compile(r"[^\s@,\"`]+(@[^\s@,\"`]+)?"), "namespace": re.compile(r"[^\s#,\"`]+")}
_NAME = re.compile(r"\*|[^\s\"`{}]+")
_LABELS = {"user": ("gpu.owner.address", "user"), "namespace": ("gpu.owner.channel", "namespace")}


class OwnersError(Exception):
    """One line on what is wrong with the table, and where."""


def read(lines: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
    """Target by name, by kind. Raises OwnersError."""
    found: dict[str, dict[str, str]] = {"user": {}, "namespace": {}}
    for number, row in enumerate(csv.reader(lines), 1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or cells[0].startswith("#"):
            continue
        if len(cells) != _CELLS or cells[0] not in found:
            raise OwnersError(f"line {number}: expected user,NAME,ADDRESS or namespace,NAME,CHANNEL, got {row}")
        kind, name, target = cells
        if not _NAME.fullmatch(name) or not _TARGET[kind].fullmatch(target):
            raise OwnersError(f"line {number}: {name!r} or {target!r} cannot be the name or target of a {kind}")
        if name in found[kind]:
            raise OwnersError(f"line {number}: {kind} {name} is there twice")
        found[kind][name] = target
    return found


def template(owners: Mapping[str, Mapping[str, str]]) -> str:
    """Alertmanager's template of them."""
    return "{{- /* Written by owners.py from the site's table. */ -}}\n" + "".join(
        _define(kind, names) for kind, names in owners.items()
    )


def _define(kind: str, names: Mapping[str, str]) -> str:
    template_name, label = _LABELS[kind]
    other = names.get("*", _DEFAULTS[kind]).replace("{name}", "{{ . }}")
    cases = [f'if eq . "{name}" }}}}{target}{{{{ else ' for name, target in sorted(names.items()) if name != "*"]
    choice = f"{{{{ {''.join(cases).removesuffix(' else ')} else }}}}{other}{{{{ end }}}}" if cases else other
    return f'{{{{ define "{template_name}" }}}}{{{{ with .CommonLabels.{label} }}}}{choice}{{{{ end }}}}{{{{ end }}}}\n'


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="table of owners (CSV)")
    given = parser.parse_args()
    try:
        sys.stdout.write(template(read(given.file.read_text().splitlines())))
    except (OSError, UnicodeDecodeError, OwnersError) as error:
        sys.stderr.write(f"owners: {given.file}: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
