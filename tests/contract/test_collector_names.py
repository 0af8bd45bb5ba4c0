"""OpenTelemetry's collector (Prometheus receiver to Prometheus remote write) keeps the name of every declared family.

The rules are those of `UnitWordToUCUM` in opentelemetry-collector-contrib 0.155 and of `normalizeName` in
github.com/prometheus/otlptranslator 1.0. `make otel` asks the collector itself.
"""

from __future__ import annotations

import pytest

from exporter.core.families import AnyFamily, Block, Sample, Shown, Type, in_columns
from exporter.exposition.page import Renderer
from exporter.sampling.families import families

_RATIO, _TOTAL = "ratio", "total"
_DISGUISED = frozenset({"info", "stateset", "unknown", "histogram", "gaugehistogram", "summary"})
"""Types of OpenMetrics whose families are renamed, or split into series of other names."""


def collector_name(name: str, unit: str, *, counter: bool) -> str:
    """Return the name under which the collector delivers a gauge or counter whose OpenMetrics unit is `unit`."""
    main, _, per = unit.partition("_per_")
    tokens = [token for token in name.split("_") if token]
    if main not in {"", _RATIO} and main not in tokens:
        tokens.append(main)
    if per:
        tokens.append(f"per_{per}")  # is looked for as one token, so it is never found
    if counter:
        tokens = [*(token for token in tokens if token != _TOTAL), _TOTAL]
    elif main == _RATIO and not per:
        tokens = [*(token for token in tokens if token != _RATIO), _RATIO]
    return "_".join(tokens)


@pytest.mark.parametrize(
    ("name", "unit", "counter", "delivered"),
    [
        ("gpu_utilization_ratio", "ratio", False, "gpu_utilization_ratio"),
        ("gpu_ratio_limit", "ratio", False, "gpu_limit_ratio"),
        ("gpu_energy_joules_total", "joules", True, "gpu_energy_joules_total"),
        ("gpu_energy_total", "joules", True, "gpu_energy_joules_total"),
        ("gpu_total_events", "", True, "gpu_events_total"),
        (
            "gpu_rdma_port_rate_bytes_per_second",
            "bytes_per_second",
            False,
            "gpu_rdma_port_rate_bytes_per_second_per_second",
        ),
    ],
)
def test_collector_name_follows_the_suffix_rules(name: str, unit: str, counter: bool, delivered: str) -> None:  # noqa: FBT001 - a case
    assert collector_name(name, unit, counter=counter) == delivered


@pytest.mark.parametrize("family", families(), ids=lambda family: family.name)
def test_family_keeps_its_name_through_the_collector(family: AnyFamily) -> None:
    metadata = _openmetrics_metadata(family)

    assert metadata["TYPE"] not in _DISGUISED
    assert collector_name(family.name, metadata.get("UNIT", ""), counter=metadata["TYPE"] == "counter") == family.name


@pytest.mark.parametrize("family", families(), ids=lambda family: family.name)
def test_openmetrics_metadata_names_the_series(family: AnyFamily) -> None:
    """As the receiver looks it up: by the name of the series, and for a counter without `_total`."""
    stem = family.name.removesuffix("_total") if family.type is Type.COUNTER else family.name

    assert f"# TYPE {stem} {family.type.value}\n" in _page(family)


def _openmetrics_metadata(family: AnyFamily) -> dict[str, str]:
    """Return TYPE, UNIT and HELP of the family on an OpenMetrics page."""
    comments = (line.split(" ", 3) for line in _page(family).splitlines() if line.startswith("# "))
    return {words[1]: words[3] for words in comments if words[1] != "EOF" and not words[2].startswith("process_")}


def _page(family: AnyFamily) -> str:
    sample = Sample(float(family.shown is not Shown.ZERO), tuple("x" for _ in family.labels))
    block = Block(family, tuple("0" for _ in family.prefix), in_columns([sample]))
    return Renderer().render([block], "application/openmetrics-text;version=1.0.0")[1].decode()
