"""Devices that slurmd lets a job's cgroup v2 open: its eBPF device program, read back from the kernel.

No other source on the node reports the GPUs of an idle job without prolog scripts or slurmctld.
Needs ConstrainDevices=yes, cgroup v2, CAP_SYS_ADMIN (bpf(2) refuses BPF_PROG_GET_FD_BY_ID without it) and, before
Linux 6.9, CAP_NET_ADMIN (BPF_PROG_QUERY).
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from exporter.host.text import read_text

_SYSCALL = {"x86_64": 321, "aarch64": 280, "ppc64le": 361}
_CGROUP_DEVICE = 6
_PROG_GET_FD_BY_ID, _OBJ_GET_INFO_BY_FD, _PROG_QUERY = 13, 15, 16
_MAX_PROGRAMS = 16
_MAX_BYTES = 1 << 20

# Opcodes and registers of the program slurmd writes: r2 type, r4 major, r5 minor, r0 the verdict.
_JUMP_NOT_EQUAL, _MOVE, _EXIT = 0x55, 0xB7, 0x95
_VERDICT, _TYPE, _MAJOR, _MINOR = 0, 2, 4, 5
_CHARACTER = 2

Bpf = Callable[[int, ctypes.Array[ctypes.c_char]], int]
"""bpf(2): a command and its attributes; raises OSError."""


class Rule(NamedTuple):
    major: int
    minor: int
    allowed: bool


def kernel_bpf(command: int, attributes: ctypes.Array[ctypes.c_char]) -> int:
    number = _SYSCALL.get(os.uname().machine)
    if number is None:
        raise OSError(0, f"bpf(2) has no known number on {os.uname().machine}")
    result: int = ctypes.CDLL(None, use_errno=True).syscall(number, command, attributes, len(attributes))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


REFUSED = frozenset({errno.EPERM, errno.ENOSYS, errno.EINVAL})
"""Errors that will not go away."""
_SYS_ADMIN = 21


def refusal(status: Path = Path("/proc/self/status")) -> str:
    """Return what is missing if this process has CAP_SYS_ADMIN; empty if it has not: then it is not wanted."""
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", read_text(str(status)), re.MULTILINE)
    if not found or not int(found[1], 16) >> _SYS_ADMIN & 1:
        return ""
    return "bpf(2) is refused: it needs CAP_NET_ADMIN beside CAP_SYS_ADMIN, and SystemCallFilter=bpf"


def rules(cgroup: Path, bpf: Bpf = kernel_bpf) -> tuple[Rule, ...] | None:
    """Return the rules of the device programs on `cgroup` itself; None if it has none. Raises OSError."""
    descriptor = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        programs = _attached_programs(descriptor, bpf)
    finally:
        os.close(descriptor)
    if not programs:
        return None
    return tuple(rule for program in programs for rule in decode(_program_instructions(program, bpf)))


def decode(program: bytes) -> tuple[Rule, ...]:
    """Return rules of character devices: runs of `if register != constant: next rule`, then the verdict and exit."""
    found: list[Rule] = []
    wanted: dict[int, int] = {}
    verdict: int | None = None
    for at in range(0, len(program) - len(program) % 8, 8):
        operation, registers, _, constant = struct.unpack_from("<BBhi", program, at)
        register = registers & 15
        if operation == _JUMP_NOT_EQUAL:
            wanted[register] = constant
        elif operation == _MOVE and register == _VERDICT:
            verdict = constant
        elif operation == _EXIT:
            if verdict is not None and wanted.get(_TYPE) == _CHARACTER and {_MAJOR, _MINOR} <= wanted.keys():
                found.append(Rule(wanted[_MAJOR], wanted[_MINOR], bool(verdict)))
            wanted, verdict = {}, None
    return tuple(found)


def _attached_programs(descriptor: int, bpf: Bpf) -> tuple[int, ...]:
    ids = (ctypes.c_uint32 * _MAX_PROGRAMS)()
    head = struct.pack("=IIIIQI", descriptor, _CGROUP_DEVICE, 0, 0, ctypes.addressof(ids), _MAX_PROGRAMS)
    attributes = ctypes.create_string_buffer(head, 72)
    bpf(_PROG_QUERY, attributes)
    count: int = struct.unpack_from("=I", attributes, 24)[0]
    return tuple(ids[:count])


def _program_instructions(program: int, bpf: Bpf) -> bytes:
    descriptor = bpf(_PROG_GET_FD_BY_ID, ctypes.create_string_buffer(struct.pack("=III", program, 0, 0), 64))
    try:
        length: int = struct.unpack_from("=I", _program_information(descriptor, b"", bpf), 20)[0]
        code = ctypes.create_string_buffer(min(length, _MAX_BYTES))
        request = struct.pack("=20xI8xQ", len(code), ctypes.addressof(code))
        _program_information(descriptor, request, bpf)
        return code.raw
    finally:
        os.close(descriptor)


def _program_information(descriptor: int, request: bytes, bpf: Bpf) -> bytes:
    """Return bpf_prog_info with what `request` asks for (xlated_prog_len at 20, xlated_prog_insns at 32)."""
    information = ctypes.create_string_buffer(request, 256)
    head = struct.pack("=IIQ", descriptor, len(information), ctypes.addressof(information))
    bpf(_OBJ_GET_INFO_BY_FD, ctypes.create_string_buffer(head, 64))
    return information.raw
