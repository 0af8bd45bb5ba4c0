"""The lists of survivors: what a line says, and that it is of code there is."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests.mutation import kept
from tests.mutation.rooms import ROOMS

DIFF = """\
--- exporter/ledger/claims.py
+++ exporter/ledger/claims.py
@@ -1,3 +1,3 @@
 def collective(signals):
-    return signals.busy > 0.5
+    return signals.busy >= 0.5
"""


def test_mutant_is_named_by_its_function_and_what_was_changed() -> None:
    name = "exporter.ledger.claims.x_collective__mutmut_17"

    assert kept.describe(name, DIFF) == (
        "exporter.ledger.claims.collective: return signals.busy > 0.5 -> return signals.busy >= 0.5"
    )


def test_method_is_named_with_its_class() -> None:
    name = "exporter.sampling.join.xǁJoinerǁjoin__mutmut_3"

    assert kept.describe(name, DIFF).startswith("exporter.sampling.join.Joiner.join: ")


def test_list_is_kept_as_it_was_with_why_a_mutant_is_equivalent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kept, "FOLDER", tmp_path)
    known = {"a.b: 1 -> 2": "", "a.c: x -> y": "both are empty"}

    kept.save("web", known)

    assert kept.load("web") == known
    assert kept.load("check") == {}


@pytest.mark.parametrize("room", ROOMS)
def test_survivors_are_of_functions_there_are(room: str) -> None:
    for survivor in kept.load(room):
        path, function = survivor.split(":")[0].rsplit(".", 1)
        assert path.startswith(f"exporter.{room.replace('/', '.')}"), survivor
        parts = path.split(".")
        of = parts.pop() if parts[-1][:1].isupper() or (parts[-1].startswith("_") and parts[-1][1:2].isupper()) else ""
        found = import_module(".".join(parts))
        assert hasattr(getattr(found, of) if of else found, function), survivor
