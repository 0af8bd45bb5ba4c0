"""What each profile shows: all that rules, panels and the report ask for, within its number of series."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from exporter.cli import assembly
from exporter.collectors import COLLECTORS
from exporter.config import load as config
from exporter.config.option import ConfigError
from exporter.exposition.series_profile import ALL, DEFAULT, LEAN, NONE, NONZERO, Profile, Selection
from exporter.exposition.snapshot import AnyBlock, Block
from exporter.exposition.text import Renderer
from exporter.metrics.family import AnyFamily, Columns, Family, Type, Unit, one
from exporter.reference.check_page import renewed
from exporter.reference.performance_page import BEGIN, tables
from exporter.sampling.blocks import device_blocks
from exporter.sampling.families import families
from exporter.sampling.gpus import Gpu
from exporter.sampling.reader import read_gpu
from exporter.simulator import simulate

ROOT = Path(__file__).resolve().parents[2]
NAMES = {family.name for family in families()}
ASKED_BY = {
    "rules": ("deploy/prometheus/rules", "*.yaml"),
    "dashboards": ("dashboards/json", "*.json"),
    "report": ("exporter/report", "*.py"),
    "demo": ("deploy/demo", "*.py"),
    "runbooks": ("docs/runbooks", "*.md"),
}


def asked(by: str) -> Mapping[str, str]:
    """Metrics that some text names, and a piece of the text around each."""
    folder, pattern = ASKED_BY[by]
    found: dict[str, str] = {}
    for path in (ROOT / folder).rglob(pattern):
        for line in path.read_text().splitlines():
            found.update({name: line.strip()[:200] for name in re.findall(r"gpu_[a-z0-9_]+", line) if name in NAMES})
    return found


def family(name: str) -> AnyFamily:
    return next(each for each in families() if each.name == name)


def shown(selection: Selection, blocks: Iterable[AnyBlock]) -> list[str]:
    """The series of the page, the exporter's own process left out."""
    page = Renderer(selection).render(blocks, "")[1].decode()
    return [line for line in page.splitlines() if not line.startswith(("#", "process_"))]


@pytest.mark.parametrize(
    ("profile", "by"),
    [(Profile.DEFAULT, by) for by in ASKED_BY] + [(Profile.LEAN, "rules"), (Profile.LEAN, "report")],
)
def test_profile_shows_what_is_asked(profile: Profile, by: str) -> None:
    selection = Selection(profile)

    assert {name: where for name, where in asked(by).items() if selection.part(name) is NONE} == {}


def test_tables_name_metrics_that_there_are() -> None:
    thinned = [name for each in DEFAULT for name in each.families]

    assert {*thinned, *LEAN} - NAMES == set()
    assert len(set(thinned)) == len(thinned)


def test_default_keeps_nothing_back_that_nobody_could_name() -> None:
    """What is left out whole is asked by nobody; what somebody asks is at most thinned."""
    by_somebody = {name for by in ASKED_BY for name in asked(by)}
    left_out = {name for each in DEFAULT if each.part is NONE for name in each.families}

    assert left_out & by_somebody == set()


@pytest.mark.parametrize("by", ["rules", "dashboards"])
def test_no_mean_is_taken_over_series_that_may_be_missing(by: str) -> None:
    """A mean, or a count, over those that are not 0 is another number than over all."""
    part_of = {name: each.part for each in DEFAULT for name in each.families} | dict(LEAN)
    thinned = {name for name, part in part_of.items() if part is NONZERO}
    folder, pattern = ASKED_BY[by]
    text = "\n".join(path.read_text() for path in (ROOT / folder).rglob(pattern))

    for name in thinned:
        assert not re.findall(rf"\b(?:avg|count|min|quantile|avg_over_time)\b[^,;\n]{{0,60}}\b{name}\b", text), name


@pytest.mark.parametrize(("profile", "most", "others"), [(Profile.DEFAULT, 120, 30), (Profile.LEAN, 60, 10)])
@pytest.mark.parametrize("model", ["H200", "A100", "L40S", "V100", "B200"])
def test_series_of_one_gpu_are_few(profile: Profile, most: int, others: int, model: str) -> None:
    """`others` are its states, XIDs, faults and owner, which are not the device collectors'."""
    driver = simulate(f"1x{model}:training", lambda: 1_700_000_000.0)
    driver.open()
    device = driver.devices()[0]
    gpu = Gpu(device, read_gpu(device, {}, COLLECTORS, 1_700_000_000.0, 0.0, {}).states, answered=0.0)

    assert 20 < len(shown(Selection(profile), device_blocks(gpu, 0.0, 10.0))) + others <= most


def test_options_win_over_the_profile() -> None:
    blocks = [Block(family(name), ("0", "GPU-0"), one(1.0)) for name in ("gpu_power_watts", "gpu_memory_free_bytes")]

    def names(selection: Selection) -> list[str]:
        return [series.partition("{")[0] for series in shown(selection, blocks)]

    assert names(Selection(Profile.DEFAULT)) == ["gpu_power_watts"]
    assert names(Selection(Profile.DEFAULT, show=("gpu_memory_*",))) == ["gpu_power_watts", "gpu_memory_free_bytes"]
    assert names(Selection(Profile.FULL, hide=("gpu_memory_*",))) == ["gpu_power_watts"]
    assert names(Selection(Profile.FULL, show=("*",), hide=("*",))) == []


def test_part_of_a_family_by_value_and_by_label() -> None:
    engines: AnyFamily = Family(
        name="gpu_process_utilization_ratio",
        help="A test.",
        type=Type.GAUGE,
        unit=Unit.RATIO,
        labels=("pid", "engine"),
        samples=lambda _: (),
        prefix=(),
    )
    found = Columns((("1", "sm"), ("1", "encoder"), ("1", "decoder")), (0.0, 0.0, 0.5))

    part = Selection(Profile.DEFAULT).part(engines.name)

    assert part.of(engines, found) == Columns((("1", "sm"), ("1", "decoder")), (0.0, 0.5))
    assert ALL.of(engines, found) == found


def test_name_of_no_metric_is_refused_in_one_line() -> None:
    settings = config.load(["--series.hide", "gpu_typo"], {}, config.options())

    with pytest.raises(ConfigError, match=r"^--series.hide: expected names of metrics .*, got gpu_typo$"):
        assembly.selection(settings)


def test_page_is_up_to_date() -> None:
    page = ROOT / "docs/performance.md"

    assert page.read_text() == renewed(page.read_text(), tables(), BEGIN), "run `make performance-page`"
