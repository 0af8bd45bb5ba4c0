#!/usr/bin/env python3
"""Receivers by workload: a table of the site, made into a template Alertmanager takes addresses and channels from.

    owners.py owners.csv /etc/alertmanager/owners.tmpl

Each line is `user,NAME,ADDRESS` or `namespace,NAME,CHANNEL` (no `#` before the channel); `*` is everybody else, and
`{name}` in the last column stands for the name. A table that is wrong leaves the template as it was: an empty one would
cost every message to an owner. Needs nothing but Python 3.8.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

_CELLS = 3
_DEFAULTS = {"user": "{name}", "namespace": "{name}"}
_TARGET = {"user": re.compile(r"[^\s@,\"`{}]+(@[^\s@,\"`{}]+)?"), "namespace": re.compile(r"[^\s#,\"`{}]+")}
_PLACE = "{name}"
_NAME = re.compile(r"\*|[^\s\"`{}]+")
_LABELS = {"user": ("gpu.owner.address", "user"), "namespace": ("gpu.owner.channel", "workload_namespace")}


class OwnersError(Exception):
    """One line on what is wrong with the table, and where."""


def read(lines: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
    """Target by name, by kind. Raises OwnersError."""
    found: dict[str, dict[str, str]] = {"user": {}, "namespace": {}}
    for number, row in enumerate(_rows(lines), 1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or cells[0].startswith("#"):
            continue
        if len(cells) != _CELLS or cells[0] not in found:
            raise OwnersError(f"line {number}: expected user,NAME,ADDRESS or namespace,NAME,CHANNEL, got {row}")
        kind, name, target = cells
        if not _NAME.fullmatch(name) or not _TARGET[kind].fullmatch(target.replace(_PLACE, "name")):
            raise OwnersError(f"line {number}: {name!r} or {target!r} cannot be the name or target of a {kind}")
        if name in found[kind]:
            raise OwnersError(f"line {number}: {kind} {name} is there twice")
        found[kind][name] = target
    return found


def _rows(lines: Iterable[str]) -> Iterator[Sequence[str]]:
    try:
        yield from csv.reader(lines)
    except csv.Error as error:
        raise OwnersError(str(error)) from None


def template(owners: Mapping[str, Mapping[str, str]]) -> str:
    """Alertmanager's template of them."""
    return "{{- /* Written by owners.py from the site's table. */ -}}\n" + "".join(
        _define(kind, names) for kind, names in owners.items()
    )


def _define(kind: str, names: Mapping[str, str]) -> str:
    template_name, label = _LABELS[kind]
    other = names.get("*", _DEFAULTS[kind]).replace(_PLACE, "{{ . }}")
    cases = [  # Go's strings are written as JSON's
        f"if eq . {json.dumps(name, ensure_ascii=False)} }}}}{target.replace(_PLACE, name)}"
        for name, target in sorted(names.items())
        if name != "*"
    ]
    choice = f"{{{{ {'{{ else '.join(cases)}{{{{ else }}}}{other}{{{{ end }}}}" if cases else other
    return f'{{{{ define "{template_name}" }}}}{{{{ with .CommonLabels.{label} }}}}{choice}{{{{ end }}}}{{{{ end }}}}\n'


def _write(file: Path, content: str) -> None:
    """Write the file in one move: Alertmanager may read it at any time."""
    new = file.with_name(f".{file.name}.new")
    new.write_text(content, encoding="utf-8")
    new.replace(file)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="table of owners (CSV)")
    parser.add_argument("output", type=Path, nargs="?", help="template to write (default: standard output)")
    given = parser.parse_args()
    try:
        made = template(read(given.file.read_text(encoding="utf-8-sig").splitlines()))
        if given.output:
            _write(given.output, made)
        else:
            sys.stdout.write(made)
    except (OSError, UnicodeDecodeError, OwnersError) as error:
        sys.stderr.write(f"owners: {given.file}: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
