# noqa: INP001 - not a package: the text of a container's command
"""Wait for the mark of the GPU Operator's validator: the container toolkit is set up on this node."""

import sys
import time
from pathlib import Path

mark = Path("/run/nvidia/validations/toolkit-ready")
sys.stderr.write(f"waiting for {mark}\n")
while not mark.exists():
    time.sleep(1)  # the standard library does not watch files
