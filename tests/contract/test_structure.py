"""The folders of `exporter/` in their order: each imports only from those before it."""

from __future__ import annotations

import re
from collections import Counter
from graphlib import CycleError

import pytest

from tests.structure import (
    DAEMON,
    KEPT_HELPERS,
    MAX_FILE_LINES,
    MAX_FLOORS,
    MAX_LINES,
    MAX_MODULES,
    ORDER,
    ROOT,
    TOOLS,
    arrows,
    floors,
    folders,
    inner_arrows,
    inner_floors,
    lengths,
    loose,
    sizes,
    small_helpers,
    upward,
)


def test_every_folder_has_its_place_in_the_order() -> None:
    assert folders() == sorted(ORDER)


def test_no_import_points_to_a_later_folder() -> None:
    assert upward(arrows()) == []


@pytest.mark.parametrize(
    ("inside", "count"),
    [
        (set[tuple[str, str]](), 1),
        ({("kubernetes", "")}, 2),
        ({("assembly", "kubernetes"), ("assembly", "slurm"), ("kubernetes", ""), ("assembly", "")}, 3),
    ],
)
def test_floors_inside_a_folder(inside: set[tuple[str, str]], count: int) -> None:
    assert inner_floors(inside) == count


def test_no_subfolders_import_each_other_in_a_circle() -> None:
    assert all(inner_floors(inside) for inside in inner_arrows().values())


def test_a_circle_of_three_subfolders_is_refused() -> None:
    with pytest.raises(CycleError):
        inner_floors({("a", "b"), ("b", "c"), ("c", "a")})


def test_modules_are_in_folders() -> None:
    assert loose() == ["__init__.py", "__main__.py", "commands.py"]


def test_only_the_driver_knows_the_binding() -> None:
    named = re.compile(r"import pynvml|import_module\(.pynvml")
    users = {path.relative_to(ROOT).parts[:2] for path in ROOT.rglob("*.py") if named.search(path.read_text())}

    assert users == {("driver", "nvml")}


def test_metrics_are_declared_in_one_way() -> None:
    """By gauge, counter, gauges, counters or info of `exporter/core/families.py`, with `experimental` around it."""
    others = [path.relative_to(ROOT) for path in ROOT.rglob("*.py") if re.search(r"\bFamily\(", path.read_text())]

    assert [str(path) for path in others] == ["core/families.py"]


def test_lines_end_with_a_newline_alone() -> None:
    """By lines() of `exporter/host/text.py`: str.splitlines() also cuts where a user wants it to."""
    users = [path.relative_to(ROOT) for path in ROOT.rglob("*.py") if ".splitlines(" in path.read_text()]

    assert [str(path) for path in users] == ["host/text.py"]


def test_no_class_name_stands_in_three_modules() -> None:
    sources = (path.read_text() for path in ROOT.rglob("*.py"))
    names = Counter(name for source in sources for name in re.findall(r"^class (\w+)", source, re.MULTILINE))

    assert [name for name, count in names.items() if count > 2] == []


def test_nothing_is_looked_for_in_a_way_that_raises() -> None:
    """By exists() and is_folder() of `exporter/host/text.py`: Path's own raise where a folder is closed to us."""
    asked = re.compile(r"\.(exists|is_dir|is_file|is_symlink|is_mount)\(\)")
    users = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if asked.search(path.read_text())]

    assert users == ["host/text.py"]  # where it is told why


def test_daemon_imports_no_tool() -> None:
    assert [arrow for arrow in arrows() if arrow[0] in DAEMON and arrow[1] in TOOLS] == []


def test_architecture_page_lists_every_folder() -> None:
    page = (ROOT.parent / "docs" / "dev" / "architecture.md").read_text()
    listed = re.findall(r"^\| `(\w+)/`", page, flags=re.MULTILINE)

    assert listed == [*DAEMON, "tools"]


def test_folders_keep_their_size() -> None:
    assert {folder: lines for folder, (_, lines) in sizes().items() if lines > MAX_LINES[folder]} == {}
    assert sum(modules for modules, _ in sizes().values()) <= MAX_MODULES


def test_tree_keeps_its_floors() -> None:
    assert max(floors().values()) <= MAX_FLOORS


def test_files_are_short() -> None:
    assert {str(path): lines for path, lines in lengths().items() if lines > MAX_FILE_LINES} == {}


@pytest.mark.parametrize(
    ("call", "found"),
    [("return _add(1)", ["_add"]), ("return [_add(each) for each in x]", []), ("return x and _add(1)", [])],
)
def test_small_helper_is_found_where_it_could_be_written_in_its_caller(call: str, found: list[str]) -> None:
    source = f"def _add(y):\n    z = y + 1\n    return z\ndef use(x):\n    {call}\n"

    assert list(small_helpers(source)) == found


def test_helper_of_four_statements_or_with_two_callers_stays() -> None:
    assert not list(
        small_helpers("def _f():\n    a = 1\n    b = 2\n    c = 3\n    return a\ndef g():\n    return _f()\n")
    )
    assert not list(small_helpers("def _f():\n    return 1\ndef g():\n    return _f()\ndef h():\n    return _f()\n"))


def test_small_helpers_are_written_in_their_callers() -> None:
    found = {(path.name, name) for path in ROOT.rglob("*.py") for name in small_helpers(path.read_text())}

    assert found == set(KEPT_HELPERS.items())
