"""What is only looked for ends nothing, whatever the kernel says of the way to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.host.text import exists, is_folder

TOO_LONG = "x" * 300
"""The kernel refuses to look for it, root too."""


def test_what_is_there_is_found(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert (exists(tmp_path), is_folder(tmp_path)) == (True, True)
    assert (exists(tmp_path / "file"), is_folder(tmp_path / "file")) == (True, False)
    assert (exists(tmp_path / "none"), is_folder(tmp_path / "none")) == (False, False)


def test_what_cannot_be_looked_for_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="too long"):
        (tmp_path / TOO_LONG).stat()

    assert not exists(tmp_path / TOO_LONG)
    assert not is_folder(tmp_path / TOO_LONG)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not look")
def test_what_is_in_a_closed_folder_is_not_there_for_others(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "closed" / "file").touch()
    program = (
        "import os, sys; from exporter.host.text import exists, is_folder; os.setuid(65534); "
        "print(exists(sys.argv[1]), is_folder(sys.argv[1]))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "closed" / "file")], capture_output=True, text=True, check=True
    )

    assert done.stdout == "False False\n"
