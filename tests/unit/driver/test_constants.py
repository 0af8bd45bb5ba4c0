"""Our numbers under NVIDIA's names are NVIDIA's numbers."""

from __future__ import annotations

import pynvml

from exporter.driver import constants


def test_every_constant_that_the_binding_has_is_the_same_there() -> None:
    ours = {name: value for name, value in vars(constants).items() if name.startswith(("NVML_", "nvml"))}
    theirs = {name: getattr(pynvml, name) for name in ours if hasattr(pynvml, name)}

    assert len(theirs) > 120
    assert {name: ours[name] for name in theirs} == theirs
