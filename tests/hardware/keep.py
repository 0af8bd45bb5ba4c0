"""Make a measured capture a test: `python -m tests.hardware.keep FOLDER/captures.json SITE [PATTERN …]`.

Writes tests/captures/SITE__MODEL__DRIVER__PATTERN.json for every pattern in the file or for those named. Then run
`pytest tests/contract/test_captures.py --update`. Read the captures, which are masked, and the difference of
tests/captures/expected.txt before they are committed.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from exporter.tools.capture.record import write
from exporter.tools.capture.replay import FORMAT, key_of

_TESTS = Path(__file__).resolve().parents[1]
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.-]+")


def name_of(capture: Mapping[str, Any], site: str, pattern: str) -> str:
    """The file's name without its ending. Raises KeyError where the capture has no device."""
    if not capture["devices"]:
        raise KeyError("the capture has no device")
    models = capture["devices"][0]["calls"][key_of("nvmlDeviceGetName", ())]
    driver = capture["system"][key_of("nvmlSystemGetDriverVersion", ())][0][1]
    model = str(models[0][1]).removeprefix("NVIDIA ")
    return "__".join(_NOT_IN_NAMES.sub("-", part).strip("-") for part in (site, model, str(driver), pattern))


def keep(source: Path, folder: Path, site: str, patterns: Sequence[str] = ()) -> list[Path]:
    """Return the captures written. A site named `sim` is refused: it means simulated."""
    if site == "sim" or "__" in site:
        raise ValueError(f"site {site!r}: expected the name of a real place, without '__'")
    found = json.loads(source.read_text(encoding="utf-8"))
    captures = {name: each for name, each in found.items() if isinstance(each, dict) and each.get("format") == FORMAT}
    missing = set(patterns) - captures.keys()
    if missing:
        raise ValueError(f"no capture {min(missing)!r} in {source}: there are {', '.join(captures)}")
    written = []
    for pattern, capture in captures.items():
        if patterns and pattern not in patterns:
            continue
        path = folder / f"{name_of(capture, site, pattern)}.json"
        write(capture, path)
        written.append(path)
    return written


if __name__ == "__main__":
    for made in keep(Path(sys.argv[1]), _TESTS / "captures", sys.argv[2], sys.argv[3:]):
        sys.stdout.write(f"{made}\n")
