"""What slurmd's device program says, from its instructions."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.slurm import device_program
from exporter.attribution.slurm.device_program import Rule, decode
from tests.attribution_kit.bpf import program

CAPTURED = Path(__file__).parent / "data/slurmd-22.05-device-program.bin"
"""As slurmd 22.05.8 put it on the cgroup of a job that holds GPUs 2 and 3 of eight."""

rules = st.builds(Rule, st.integers(0, 4095), st.integers(0, 1 << 20), st.booleans())


def test_program_of_a_real_slurmd_allows_what_its_job_holds() -> None:
    found = decode(CAPTURED.read_bytes())

    assert {rule.minor for rule in found if rule.allowed} == {2, 3}
    assert {rule.minor for rule in found if not rule.allowed} == {0, 1, 4, 5, 6, 7}
    assert {rule.major for rule in found} == {195}


class Kernel:
    """bpf(2) with one program on the cgroup, number 9, by the layouts of linux/bpf.h."""

    def __init__(self, code: bytes) -> None:
        self.code = code

    def __call__(self, command: int, attributes: ctypes.Array[ctypes.c_char]) -> int:
        if command == 16:  # BPF_PROG_QUERY: prog_ids, prog_cnt
            ctypes.memmove(struct.unpack_from("=Q", attributes, 16)[0], struct.pack("=I", 9), 4)
            struct.pack_into("=I", attributes, 24, 1)
            return 0
        if command == 13:  # BPF_PROG_GET_FD_BY_ID
            assert struct.unpack_from("=I", attributes)[0] == 9
            return os.open(os.devnull, os.O_RDONLY)
        _, size, at = struct.unpack_from("=IIQ", attributes)  # BPF_OBJ_GET_INFO_BY_FD
        information = (ctypes.c_char * size).from_address(at)
        length, place = struct.unpack_from("=20xI8xQ", information)  # xlated_prog_len, xlated_prog_insns
        if place:
            assert place > 1 << 32, "no address"
            ctypes.memmove(place, self.code, min(length, len(self.code)))
        struct.pack_into("=I", information, 20, len(self.code))
        return 0


def test_program_of_a_cgroup_is_read_from_the_kernel(tmp_path: Path) -> None:
    found = device_program.rules(tmp_path, Kernel(CAPTURED.read_bytes()))

    assert {rule.minor for rule in found or () if rule.allowed} == {2, 3}


@pytest.mark.parametrize("code", [b"", b"\x00" * 7, program([])])
def test_program_without_device_rules_has_none(code: bytes) -> None:
    assert decode(code) == ()


@given(st.lists(rules, max_size=20))
def test_any_rules_are_read_back(expected: list[Rule]) -> None:
    assert decode(program(expected)) == tuple(expected)


@given(st.binary(max_size=400))
def test_any_bytes_are_survived(code: bytes) -> None:
    decode(code)
