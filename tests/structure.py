"""`make structure`: the folders of `exporter/`, their floors, and who imports whom."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "exporter"

DAEMON = (
    "core", "config", "driver", "host", "collectors", "attribution", "progress", "ledger", "accounting", "faults",
    "sampling", "exposition", "web", "daemon",
)  # fmt: skip
TOOLS = ("tools/simulator", "tools/capture", "tools/report", "tools/check", "tools/reference")
ORDER = DAEMON + TOOLS
"""Folders from the one that imports nothing to the one that imports most."""

MAX_LINES = {
    "core": 1120, "config": 917, "driver": 2840, "host": 2720, "collectors": 2860, "attribution": 7385,
    "progress": 1240, "ledger": 3065, "accounting": 1061, "faults": 3075, "sampling": 3735, "exposition": 190,
    "web": 2250, "daemon": 990,
    "tools/simulator": 2735, "tools/capture": 715, "tools/report": 6035, "tools/check": 1100, "tools/reference": 760,
}  # fmt: skip
"""Lines of each folder. A commit that raises one says by how much and why."""
MAX_MODULES = 266
MAX_FLOORS = 9
"""Floors of the daemon and its tools."""
MAX_FILE_LINES = 400
"""Lines of a file, without its docstrings."""

MAX_HELPER_STATEMENTS = 3
KEPT_HELPERS = {
    "power.py": "_integrate_power",  # a formula
    "usage.py": "_energy_part",  # a formula
    "accounting.py": "_in_question",  # a rule with its constants, of a caller that is long enough
}
"""Helpers by module that stay although small_helpers() names them."""

Arrow = tuple[str, str]
_REPEATED = (
    ast.comprehension, ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp, ast.Lambda, ast.IfExp, ast.BoolOp,
    ast.JoinedStr, ast.While,
)  # fmt: skip
"""Parts of an expression, or statements, in which a call runs more than once, or under a condition, or amid text."""


def folders() -> list[str]:
    """Return the folders with modules; each tool counts as a folder of its own."""
    found = {_folder(path.relative_to(ROOT).parts) for path in ROOT.rglob("*.py")}
    return sorted(found - {""})


def loose() -> list[str]:
    """Return the modules that are in no folder."""
    return sorted(
        str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if not _folder(path.relative_to(ROOT).parts)
    )


def lengths() -> Mapping[Path, int]:
    """Return the lines of every Python file of the project, docstrings apart."""
    top = ROOT.parent
    files = (
        path for name in ("exporter", "tests", "deploy", "helm", "dashboards") for path in (top / name).rglob("*.py")
    )
    return {path.relative_to(top): _code_lines(path.read_text()) for path in files}


@functools.cache
def arrows() -> Mapping[Arrow, int]:
    """Return how many imports lead from one folder to another."""
    found: Counter[Arrow] = Counter()
    for path in ROOT.rglob("*.py"):
        folder = _folder(path.relative_to(ROOT).parts)
        found.update((folder, target) for target in map(_folder_of, _imported(path)) if target not in ("", folder))
    return {arrow: count for arrow, count in found.items() if arrow[0]}


@functools.cache
def inner_arrows() -> Mapping[str, set[Arrow]]:
    """Return which subfolders of each folder import from which; an empty name is the folder itself."""
    found: dict[str, set[Arrow]] = {}
    for folder in folders():
        inside = found[folder] = set[Arrow]()
        for path in (ROOT / folder).rglob("*.py"):
            here = _subfolder(folder, ".".join(path.relative_to(ROOT).with_suffix("").parts))
            for module in _imported(path):
                if _folder_of(module) == folder and _subfolder(folder, module) != here:
                    inside.add((here, _subfolder(folder, module)))
    return found


def inner_floors(inside: set[Arrow]) -> int:
    """Return the longest way of imports through the subfolders; fails if they import each other in a circle."""
    needs = {start: {end for begin, end in inside if begin == start} for start, _ in inside}
    order: TopologicalSorter[str] = TopologicalSorter(needs)
    found: dict[str, int] = {}
    for each in order.static_order():
        found[each] = 1 + max((found[end] for start, end in inside if start == each), default=0)
    return max(found.values(), default=1)


def upward(found: Iterable[Arrow]) -> list[Arrow]:
    """Return the arrows to a folder that comes later in the order."""
    return sorted((start, end) for start, end in found if ORDER.index(end) > ORDER.index(start))


def floors() -> Mapping[str, int]:
    """Return the floor of each folder: one more than the highest folder it imports from."""
    found: dict[str, int] = {}
    for folder in ORDER:
        found[folder] = 1 + max((found.get(end, 0) for start, end in arrows() if start == folder), default=0)
    return found


def sizes() -> Mapping[str, tuple[int, int]]:
    """Return the modules and lines of each folder."""
    found: dict[str, tuple[int, int]] = {}
    for folder in ORDER:
        files = list((ROOT / folder).rglob("*.py"))
        found[folder] = (len(files), sum(len(file.read_text().splitlines()) for file in files))
    return found


def small_helpers(source: str) -> Iterator[str]:
    """Yield the private helpers with one caller and at most three statements that could be written in their caller.

    One that is called inside an expression for each of several items, or only under a condition, could not.
    """
    tree = ast.parse(source)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    uses = Counter(_name_of(node) for node in parents)
    calls = {_name_of(node.func): node for node in parents if isinstance(node, ast.Call)}
    for helper in (node for node in parents if isinstance(node, ast.FunctionDef) and not node.decorator_list):
        name, inside = helper.name, [node for node in ast.walk(helper) if isinstance(node, ast.stmt)]
        statements = len(inside) - 1 - (ast.get_docstring(helper) is not None)
        if not re.match("_[^_]", name) or uses[name] != 1 or name not in calls or statements > MAX_HELPER_STATEMENTS:
            continue
        within: list[ast.AST] = [calls[name]]
        while within[-1] in parents:
            within.append(parents[within[-1]])
        last = next(place for place, node in enumerate(within) if isinstance(node, ast.stmt))
        if helper not in within and not any(isinstance(node, _REPEATED) for node in within[: last + 1]):
            yield name


def table() -> Iterator[str]:
    """Yield the lines that `make structure` prints."""
    arrow, floor, size = arrows(), floors(), sizes()
    for folder in ORDER:
        targets = ", ".join(sorted(end for start, end in arrow if start == folder)) or "nothing"
        modules, lines = size[folder]
        inside = inner_arrows()[folder]
        within = f", inside {inner_floors(inside)} floors and {len(inside)} arrows" if inside else ""
        yield f"{floor[folder]:2} {folder:15} {modules:3} modules, {lines:5} lines, imports {targets}{within}"
    for name, part in (("daemon", DAEMON), ("tools", TOOLS)):
        modules, lines = (sum(size[folder][each] for folder in part) for each in (0, 1))
        yield f"{name}: {len(part)} folders, {modules} modules, {lines} lines"
    yield (
        f"{max(floor.values())} floors, {len(arrow)} arrows, {len(upward(arrow))} upward, "
        f"{sum(map(len, inner_arrows().values()))} arrows inside folders, {len(loose())} loose modules"
    )
    longest = max(lengths().items(), key=lambda each: each[1])
    yield f"{len(lengths())} files, the longest {longest[0]} with {longest[1]} lines"


def _name_of(node: ast.AST) -> str:
    """Return the name that an expression reads or calls; empty if it is no name."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _folder(parts: tuple[str, ...]) -> str:
    """Return the folder of a module, given its path below `exporter/`; empty if it is in none."""
    depth = 2 if parts[0] == "tools" else 1
    return "/".join(parts[:depth]) if len(parts) > depth else ""


def _folder_of(module: str) -> str:
    """Return the folder of a dotted name below `exporter`; empty if it is in none."""
    parts = tuple(module.split("."))
    name = "/".join(parts[: 2 if parts[0] == "tools" else 1])
    return name if name in ORDER else ""


def _subfolder(folder: str, module: str) -> str:
    """Return the subfolder of a module inside its folder; empty for one directly in it."""
    rest = module.split(".")[len(folder.split("/")) :]
    return rest[0] if rest and (ROOT / folder / rest[0]).is_dir() else ""


def _imported(path: Path) -> Iterator[str]:
    """Yield the dotted names below `exporter` that a module imports from."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("exporter."):
            yield node.module.removeprefix("exporter.")


def _code_lines(text: str) -> int:
    """Return the lines of a module without those of its docstrings."""
    strings = (
        node.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    return len(text.splitlines()) - sum((each.end_lineno or each.lineno) - each.lineno + 1 for each in strings)


if __name__ == "__main__":
    sys.stdout.write("\n".join(table()) + "\n")
