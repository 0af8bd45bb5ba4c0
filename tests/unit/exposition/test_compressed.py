"""Compressed pages: whatever changes, they say what the plain ones say; what stays is not compressed again."""

from __future__ import annotations

import gzip
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.exposition.compressed import Compressor


def piece(place: int, time: int) -> bytes:
    return b"".join(b'gpu_x_total{gpu="%d",place="%d"} %d.0\n' % (gpu, place, time) for gpu in range(place % 9 * 20))


@given(st.lists(st.tuples(st.integers(0, 12), st.sets(st.integers(0, 12))), min_size=1, max_size=8))
def test_compressed_page_says_what_the_plain_one_says(steps: list[tuple[int, set[int]]]) -> None:
    """Each page has so many pieces, of which some are others than in the page before."""
    compressor, pieces = Compressor(), [piece(place, 0) for place in range(12)]
    for time, (number, changed) in enumerate(steps, 1):
        pieces = [piece(place, time) if place in changed else found for place, found in enumerate(pieces)]
        page = tuple(pieces[:number])

        assert gzip.decompress(compressor.compressed(page)) == b"".join(page)


def test_other_programs_read_it() -> None:
    program = shutil.which("gzip")
    if program is None:
        pytest.skip("no gzip here")
    compressor = Compressor()
    compressor.compressed(tuple(piece(place, 0) for place in range(20)))
    page = tuple(piece(place, place % 2) for place in range(20))

    unpacked = subprocess.run([program, "-dc"], input=compressor.compressed(page), capture_output=True, check=True)

    assert unpacked.stdout == b"".join(page)


def test_what_stays_is_kept_and_costs_few_bytes() -> None:
    compressor, pieces = Compressor(), [piece(place, 0) for place in range(40)]
    pages: list[bytes] = []
    for time in range(1, 5):
        pieces[7] = piece(7, time)
        pages.append(compressor.compressed(tuple(pieces)))

    kept = [tuple(compressor._kept.values())]
    pieces[7] = piece(7, 9)
    last = compressor.compressed(tuple(pieces))
    kept.append(tuple(compressor._kept.values()))

    assert len(kept[0]) == 2  # before and behind what changes
    assert [id(each) for each in kept[0]] == [id(each) for each in kept[1]]
    assert len(last) < 1.3 * len(gzip.compress(b"".join(pieces), 1))


def test_what_no_longer_changes_is_kept_again_after_a_while() -> None:
    compressor, pieces = Compressor(), [piece(place, 0) for place in range(40)]
    for time in range(300):
        pieces[7] = piece(7, min(time, 9)) if time < 10 else pieces[7]
        compressor.compressed(tuple(pieces))

    assert len(compressor._kept) == 1
