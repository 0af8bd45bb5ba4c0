# noqa: INP001 - not a package: the text of a container's command
"""Wait for the file of the GPU Operator's validator: the container toolkit is set up on this node."""

import signal
import sys
import time
from pathlib import Path


def end(*_: object) -> None:
    sys.exit(143)


mark = Path("/run/nvidia/validations/toolkit-ready")
signal.signal(signal.SIGTERM, end)  # the first process of a container has no default for it
sys.stderr.write(f"waiting for {mark}\n")
while not mark.exists():
    time.sleep(1)  # the standard library does not watch files
