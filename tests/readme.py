"""What the README tells a stranger to type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

README = (Path(__file__).resolve().parents[1] / "README.md").read_text()


def lines(*starts: str) -> Iterator[str]:
    """Lines of its shell blocks that begin so, without their comments."""
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL):
        for line in block.splitlines():
            if line.startswith(starts):
                yield line.partition(" #")[0].strip()


def line(start: str) -> str:
    """The only one that begins so. Raises ValueError."""
    (found,) = lines(start)
    return found


def alternative(start: str) -> str:
    """What stands as `# or: ...` behind the only line that begins so."""
    (found,) = re.findall(rf"^{re.escape(start)}.*# or: (.+)$", README, re.MULTILINE)
    return str(found)
