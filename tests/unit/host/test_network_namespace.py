"""Working in the network namespace of another process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.host import namespace

PROC = Path("/proc")
CHILD = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x40000000):
    print("no", os.strerror(ctypes.get_errno()), flush=True)
else:
    print("yes", flush=True)
sys.stdin.read()
"""


def _interfaces() -> list[str]:
    return sorted(line.split(":")[0].strip() for line in Path("/proc/thread-self/net/dev").read_text().splitlines()[2:])


def test_in_the_own_namespace_nothing_is_entered() -> None:
    assert namespace.run_in_network_namespace(PROC, os.getpid(), _interfaces, 5.0) == _interfaces()


def test_work_is_done_in_the_namespace_of_the_process_and_the_caller_stays() -> None:
    before = _interfaces()
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        said = child.stdout.readline().strip()
        if said != "yes":
            child.communicate("")
            pytest.skip(f"this machine lets nobody make a network namespace: {said}")
        assert not namespace.shares_network_namespace(PROC, child.pid)
        found = namespace.run_in_network_namespace(PROC, child.pid, _interfaces, 5.0)
        child.communicate("")

    assert found == ["lo"]
    assert _interfaces() == before


def test_process_that_has_gone_is_an_error() -> None:
    with pytest.raises(OSError, match="No such file"):
        namespace.run_in_network_namespace(PROC, 2**22 - 1, _interfaces, 5.0)
