"""YAML of the site: what a person would write is read, and what would cost a process its memory is refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.core import site_file
from exporter.core.site_file import SiteFileError

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{place}: &a{place} [{', '.join([f'*a{place - 1}'] * 9)}]\n" for place in range(1, 9)
)


def load(folder: Path, content: bytes) -> object:
    file = folder / "site.yaml"
    file.write_bytes(content)
    return site_file.load_yaml(file)


def test_what_people_write_is_read(tmp_path: Path) -> None:
    text = b"\xef\xbb\xbfall: &all {a: 1}\r\none: {<<: *all, b: [x, 2]}\r\nagain: *all\r\n"

    assert load(tmp_path, text) == {"all": {"a": 1}, "one": {"a": 1, "b": ["x", 2]}, "again": {"a": 1}}
    assert load(tmp_path, b"") is None


def test_mapping_merged_before_it_is_built_keeps_its_overridden_key(tmp_path: Path) -> None:
    text = b"all: &all {a: 1}\nx: {y: &one {<<: *all, a: 2}}\nagain: {<<: *one}\n"

    assert load(tmp_path, text) == {"all": {"a": 1}, "x": {"y": {"a": 2}}, "again": {"a": 2}}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a: 1\nb: {c: 1, c: 2}", "not YAML: key 'c' is there twice in .*line 2"),
        (b"a: [", "not YAML: while parsing"),
        (b"[" * 100_000, "not YAML: nested too deeply"),
        (BOMB.encode(), "more than 100000 values, or one within itself"),
        (b"a: &a [*a]", "more than 100000 values, or one within itself"),
        (b"a: \xff", "not UTF-8: invalid start byte at byte 3"),
        (b"#" * (1 << 20) + b"#", "larger than 1 MiB"),
        (b"!!python/object:os.system {}", "not YAML: could not determine a constructor"),
    ],
    ids=["twice", "cut", "deep", "bomb", "circle", "bytes", "large", "object"],
)
def test_what_nobody_would_write_is_refused_in_one_line(tmp_path: Path, content: bytes, says: str) -> None:
    with pytest.raises(SiteFileError, match=f"^{says}") as caught:
        load(tmp_path, content)

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("/nowhere", "No such file or directory"),
        ("/", "Is a directory"),
        ("/dev/zero", "not a regular file"),
        ("a\0b", "not the name of a file"),
    ],
)
def test_what_is_no_file_of_bounded_size_is_refused(name: str, says: str) -> None:
    with pytest.raises(SiteFileError, match=f"^{says}$"):
        site_file.load_yaml(Path(name))
