"""A virtual machine that one talks to over its serial line: a real init, kernel and reboot, without KVM.

Under emulation it is some ten times slower than its host: for what is right, never for how long it takes.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import select
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.vm import image

_PROMPT = rb"root@[\w-]+:~# "
_BOOT_SECONDS, _COMMAND_SECONDS = 900.0, 600.0
_KERNEL = (
    "root=/dev/vda rw console=ttyS0 quiet systemd.show_status=no"
    " systemd.default_device_timeout_sec=900 systemd.default_timeout_start_sec=900 udev.event_timeout=900"
)
"""On a busy host devices take longer to appear than systemd and udev wait by themselves."""
_LONGEST_MATCH = 100
_WAIT = """\
end=$(($(date +%s) + {seconds}))
until eval {command} >/run/last 2>&1; grep -P -- {expected} /run/last; do
    [ "$(date +%s)" -lt $end ] || {{ echo "no "{expected}" in:"; tail -c 2000 /run/last; exit 1; }}
    sleep 1
done
"""


class Machine:
    """Boots a throw-away copy of the image with `given` mounted read-only at /in."""

    def __init__(self, given: Path) -> None:
        disks = [f"file={file},format=raw,if=virtio,snapshot=on" for file in (image.DISK, given)]
        self._process = subprocess.Popen(
            [
                "qemu-system-x86_64", "-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "1", "-m", "2500",
                "-nographic", "-nic", "none", "-kernel", str(image.KERNEL), "-initrd", str(image.RAMDISK),
                "-append", _KERNEL, *(word for disk in disks for word in ("-drive", disk)),
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert self._process.stdout
        self._output = self._process.stdout
        os.set_blocking(self._output.fileno(), False)
        self._seen = b""

    def wait_for_login(self) -> None:
        self._until(_PROMPT, _BOOT_SECONDS)
        self._send("stty -echo; PS1=; mkdir -p /in; mountpoint -q /in || mount -o ro /dev/vdb /in; echo rea''dy")
        self._until(rb"ready\r?\n", 300)

    def reboot(self) -> None:
        self._send("systemctl reboot")
        self.wait_for_login()

    def run(self, command: str, *, check: bool = True, seconds: float = _COMMAND_SECONDS) -> str:
        """What a shell command of root's prints, errors included."""
        text = base64.b64encode(command.encode()).decode()
        self._send(f"(eval \"$(echo {text} | base64 -d)\") >/run/printed 2>&1 </dev/null; echo st''atus $?")
        self._send("base64 -w0 /run/printed; echo; echo e''nd")
        status = self._until(rb"status (\d+)\r?\n", seconds)[1]
        printed = self._until(rb"\r?\nend\r?\n", 300).string
        found = base64.b64decode(printed.partition(b"\r\nend")[0]).decode(errors="replace")
        assert not check or status == b"0", f"{command}: {status.decode()}: {found}"
        return found

    def becomes(self, expected: str, command: str, seconds: float = 800.0) -> str:
        """Wait, in the machine, until the command prints lines that the pattern (of grep -P) matches; these lines."""
        values = {"expected": shlex.quote(expected), "command": shlex.quote(command), "seconds": f"{seconds:.0f}"}
        return self.run(_WAIT.format(**values), seconds=seconds + 300)

    def kill(self) -> None:
        with self._process as process:  # which also closes its pipes
            process.kill()

    def _until(self, pattern: bytes, seconds: float) -> re.Match[bytes]:
        """The match; its string is all that came since the one before."""
        deadline = time.monotonic() + seconds
        searched = 0
        while time.monotonic() < deadline and self._process.poll() is None:
            if found := re.compile(pattern).search(self._seen, max(0, searched - _LONGEST_MATCH)):
                self._seen = self._seen[found.end() :]
                return found
            searched = len(self._seen)
            if select.select([self._output], [], [], 1)[0]:
                self._seen += self._output.read() or b""
        raise AssertionError(f"the machine did not say {pattern!r} within {seconds:g} s: {self._seen[-2000:]!r}")

    def _send(self, line: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()


@contextlib.contextmanager
def machine(given: Path, scratch: Path) -> Iterator[Machine]:
    """A machine that has booted; `given` is a folder whose files it finds in /in."""
    image.build()
    disk = scratch / "in.img"
    size = int(subprocess.run(["du", "-sm", given], capture_output=True, check=True).stdout.split()[0])
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", given, disk, f"{size * 5 // 4 + 32}M"], check=True)
    made = Machine(disk)
    try:
        made.wait_for_login()
        yield made
    finally:
        made.kill()
