"""The list of licences is what the parts say of themselves, and none is missing."""

import importlib.metadata
from pathlib import Path

import pytest

from deploy.container import licences

PAGE = (Path(__file__).resolve().parents[3] / "docs/dev/licences.md").read_text()


def listed(heading: str) -> dict[str, str]:
    """Name and licence in the table of that chapter."""
    chapter = PAGE.partition(f"## {heading}")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in chapter.splitlines() if line.startswith("| ")]
    return {row[0]: row[1] for row in rows[1:]}


def test_distributions_have_the_licence_that_their_metadata_name() -> None:
    pinned, here = licences.distributions(), dict(licences.python_rows())
    other = {name for name, version in pinned.items() if importlib.metadata.version(name) != version}

    assert listed("Python distributions").keys() == pinned.keys()
    assert {name: said for name, said in listed("Python distributions").items() if name not in other} == {
        name: said for name, said in here.items() if name not in other
    }


def test_every_package_of_the_image_is_listed() -> None:
    assert sorted(listed("Debian's packages")) == sorted(licences.debian_packages())
    assert all(listed("Debian's packages").values())


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"License-Expression": "MIT OR Apache-2.0", "License": "x"}, "MIT OR Apache-2.0"),
        ({"License": "The MIT License (MIT)\n\nCopyright (c) 2013"}, "MIT"),
    ],
)
def test_licence_of_a_distribution(metadata: dict[str, str], expected: str) -> None:
    assert licences.of_distribution(metadata) == expected


@pytest.mark.parametrize("said", ["", "Copyright (c) 2013\nAll rights reserved"])
def test_distribution_that_names_none_stops_the_list(said: str) -> None:
    with pytest.raises(ValueError, match="x: no licence"):
        licences.of_distribution({"Name": "x", "License": said})


def test_names_in_copyright_files_of_debian() -> None:
    assert licences.of_debian("Format: https://x\nLicense: MIT\nLicense: GPL-2+\n text\n") == ("GPL-2+", "MIT")
    assert licences.of_debian("see /usr/share/common-licenses/GPL-2.\n") == ("in its own words", "GPL-2")
