#!/usr/bin/env python3
"""Stands for nvidia-container-runtime: puts the driver's library into a container that asks for it, then runs runc.

Settings come from settings.json beside this file: runc, what to mount, and a file that withholds it while it is there.
Rules as in the NVIDIA container toolkit: NVIDIA_VISIBLE_DEVICES unset, `void` or `none` gives nothing;
NVIDIA_MIG_MONITOR_DEVICES needs SYS_ADMIN.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

SETTINGS = json.loads((Path(__file__).parent / "settings.json").read_text())


def bundle(arguments: list[str]) -> Path | None:
    """The bundle of a `create`, else None."""
    if "create" not in arguments:
        return None
    for flag, value in zip(arguments, [*arguments[1:], ""], strict=True):
        if flag in {"--bundle", "-b"}:
            return Path(value)
    return Path.cwd()


def inject(spec: dict[str, Any]) -> None:
    """Add the library. Raises ValueError where the toolkit refuses the container."""
    environment = dict(entry.split("=", 1) for entry in spec["process"].get("env", []))
    if environment.get("NVIDIA_VISIBLE_DEVICES", "void") in {"", "void", "none"}:
        return
    if Path(SETTINGS["withheld"]).exists():  # the toolkit is not set up yet
        return
    bounding = spec["process"].get("capabilities", {}).get("bounding", [])
    if "NVIDIA_MIG_MONITOR_DEVICES" in environment and "CAP_SYS_ADMIN" not in bounding:
        raise ValueError("cannot set MIG_MONITOR_DEVICES in non privileged container")
    for source, target in SETTINGS["mounts"].items():
        options = ["rbind", "ro", "nosuid", "nodev"]
        spec["mounts"].append({"type": "bind", "source": source, "destination": target, "options": options})
    spec["process"]["env"] += [f"{name}={value}" for name, value in SETTINGS["environment"].items()]


def main() -> None:
    found = bundle(sys.argv[1:])
    if found:
        config = found / "config.json"
        spec = json.loads(config.read_text())
        try:
            inject(spec)
        except ValueError as error:
            sys.exit(f"nvidia-container-cli: {error}")
        config.write_text(json.dumps(spec))
    os.execv(SETTINGS["runc"], [SETTINGS["runc"], *sys.argv[1:]])  # noqa: S606 - becomes runc


if __name__ == "__main__":
    main()
