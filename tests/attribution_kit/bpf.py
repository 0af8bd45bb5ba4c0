"""A device program as slurmd 22.05 writes it, and putting one on a cgroup of this machine."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from exporter.attribution.slurm.device_program import Rule, kernel_bpf

_LOAD, _AND, _JUMP_NOT_EQUAL, _MOVE, _EXIT = 0x61, 0x54, 0x55, 0xB7, 0x95
_PROG_LOAD, _PROG_ATTACH = 5, 8
_CGROUP_DEVICE_PROGRAM, _CGROUP_DEVICE = 15, 6


def instruction(code: int, registers: int = 0, constant: int = 0, offset: int = 0) -> bytes:
    return struct.pack("<BBhi", code, registers, offset, constant)


def program(rules: Iterable[Rule]) -> bytes:
    """Type, major and minor into registers 2, 4 and 5; then each rule; then allow."""
    head = (
        instruction(_LOAD, 0x12, offset=0)
        + instruction(_AND, 2, 0xFFFF)
        + instruction(_LOAD, 0x14, offset=4)
        + instruction(_LOAD, 0x15, offset=8)
    )
    return head + b"".join(map(_rule, rules)) + instruction(_MOVE, 0, 1) + instruction(_EXIT)


def _rule(rule: Rule) -> bytes:
    return (
        instruction(_JUMP_NOT_EQUAL, 2, 2, 4)
        + instruction(_JUMP_NOT_EQUAL, 4, rule.major, 3)
        + instruction(_JUMP_NOT_EQUAL, 5, rule.minor, 2)
        + instruction(_MOVE, 0, int(rule.allowed))
        + instruction(_EXIT)
    )


def attach(cgroup: Path, code: bytes) -> None:
    """Put the program on a cgroup v2; it goes with the cgroup. Raises OSError where that is not permitted."""
    instructions = ctypes.create_string_buffer(code, len(code))
    licence = ctypes.create_string_buffer(b"GPL")
    load = struct.pack(
        "=IIQQ", _CGROUP_DEVICE_PROGRAM, len(code) // 8, ctypes.addressof(instructions), ctypes.addressof(licence)
    )
    loaded = kernel_bpf(_PROG_LOAD, ctypes.create_string_buffer(load, 72))
    folder = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY)
    try:
        request = struct.pack("=IIII", folder, loaded, _CGROUP_DEVICE, 0)
        kernel_bpf(_PROG_ATTACH, ctypes.create_string_buffer(request, 72))
    finally:
        os.close(folder)
        os.close(loaded)
