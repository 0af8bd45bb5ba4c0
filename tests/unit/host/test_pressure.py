"""PSI files become stall seconds, or nothing."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from exporter.host.cgroup import parse_pressure, pressure_seconds

PSI = "some avg10=1.00 avg60=0.50 avg300=0.10 total={some}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"


@given(st.integers(0, 2**63))
def test_some_total_is_microseconds(some: int) -> None:
    assert parse_pressure(PSI.format(some=some)) == some / 1e6


@given(st.text())
def test_anything_else_is_not_known(text: str) -> None:
    assert parse_pressure(text) is None or "some" in text


def test_cpu_without_a_full_line_is_read() -> None:
    assert parse_pressure("some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\n") == 2.5


def test_only_resources_with_a_file_are_told(tmp_path: Path) -> None:
    (tmp_path / "io.pressure").write_text(PSI.format(some=3_000_000))

    assert pressure_seconds(str(tmp_path)) == ({"io": 3.0}, {"io": 5e-06})


def test_real_pressure_of_this_machine_is_parsed_where_the_kernel_has_it() -> None:
    path = Path("/proc/pressure/cpu")

    assert (
        (parse_pressure(path.read_text()) is not None)
        if path.exists()
        else pressure_seconds("/proc/pressure") == ({}, {})
    )
