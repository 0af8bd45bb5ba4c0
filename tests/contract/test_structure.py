"""The folders of `exporter/` in their order: each imports from those before it, none from those after."""

from __future__ import annotations

import re

import pytest

from tests.structure import LONGEST, ORDER, ROOT, arrows, lengths, loose, rooms, upward

MANY = 8
"""Folders that are no longer told one by one."""
COPIED = {f"deploy/progress/{name}.py" for name in ("gpu_progress", "gpu_progress_callbacks")}


def test_every_folder_has_its_place_in_the_order() -> None:
    assert sorted(rooms()) == sorted(ORDER)


def test_no_import_points_to_a_later_folder() -> None:
    assert upward(arrows()) == []


def test_modules_are_in_folders() -> None:
    assert loose() == ["__init__.py", "__main__.py", "clock.py", "project.py", "record.py", "units.py"]


def test_only_the_driver_knows_the_binding() -> None:
    named = re.compile(r"import pynvml|import_module\(.pynvml")
    users = {path.relative_to(ROOT).parts[:2] for path in ROOT.rglob("*.py") if named.search(path.read_text())}

    assert users == {("driver", "nvml")}


def test_metrics_are_declared_in_one_way() -> None:
    """By gauge, counter, gauges, counters or info of `exporter/metrics/family.py`, with `experimental` around it."""
    others = [path.relative_to(ROOT) for path in ROOT.rglob("*.py") if re.search(r"\bFamily\(", path.read_text())]

    assert [str(path) for path in others] == ["metrics/family.py"]


def test_lines_end_with_a_newline_alone() -> None:
    """By lines() of `exporter/host/text.py`: str.splitlines() also cuts where a user wants it to."""
    users = [path.relative_to(ROOT) for path in ROOT.rglob("*.py") if ".splitlines(" in path.read_text()]

    assert [str(path) for path in users] == ["host/text.py"]


def test_nothing_is_looked_for_in_a_way_that_raises() -> None:
    """By exists() and is_folder() of `exporter/host/presence.py`: Path's own raise where a folder is closed to us."""
    asked = re.compile(r"\.(exists|is_dir|is_file|is_symlink|is_mount)\(\)")
    users = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if asked.search(path.read_text())]

    assert users == ["host/presence.py"]  # where it is told why


@pytest.mark.parametrize("room", ORDER)
def test_page_on_the_architecture_tells_what_every_folder_imports(room: str) -> None:
    """Which may be fewer than the page says only where it says most of them."""
    page = (ROOT.parent / "docs" / "architecture.md").read_text()
    rows = [line.split("|")[1:4] for line in page.splitlines() if line.startswith("| `")]
    (rooms, told) = next(
        (set(re.findall(r"`(\w+)/`", names)), told) for names, _, told in rows if f"`{room}/`" in names
    )
    imported = {end for start, end in arrows() if start in rooms} - rooms

    assert imported == set(re.findall(r"`(\w+)`", told)) or ("most of the above" in told and len(imported) > MANY)


def test_files_are_short() -> None:
    """One subject a file. Longer are those that programs copy, since one file is their point."""
    long = {str(path): lines for path, lines in lengths().items() if lines > LONGEST and str(path) not in COPIED}

    assert long == {}
