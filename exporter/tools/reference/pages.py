"""docs/metrics.md and docs/options.md, made from the declarations in exporter/."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from exporter.collectors import COLLECTORS
from exporter.collectors.config import HELP
from exporter.config.option import Option, options_of
from exporter.core.families import AnyFamily, Shown
from exporter.daemon.config import DaemonConfig
from exporter.exposition.config import HIDDEN_METRICS
from exporter.host.text import exists
from exporter.ledger.states import THRESHOLDS
from exporter.sampling.families import groups
from exporter.tools.reference.sources import sources

_FIELD = "NVML_FI_DEV_"
_NOTE = "<!-- Made by `make reference` from the declarations in exporter/. Do not edit. -->\n"


def metrics() -> str:
    parts = [
        "# Metrics\n\n",
        _NOTE,
        (
            "\nUnits are base units. A series a device cannot tell is absent: never NaN, never a made-up 0. Counters "
            "start with the first pass and never go back while the exporter runs, over driver reloads too. "
            "Owner labels (`workload`, `kind`, `namespace`, `pod`, `container`, `slurm_job`, `user`, `account`, "
            "`partition`) are always all there, empty where they do not apply.\n\n"
            "Metrics that are hidden by default are those of `--metrics.hide`, in options.md. "
            "Beside these there are the `process_…` and `python_…` metrics of Prometheus's client library.\n\n"
            "Names and labels of what is `stable` change only over a release that has both; what is `experimental` may "
            "change in any. The last column says what a metric is made from: for GPUs the driver calls without which, "
            "on the simulated models, its samples would be others.\n"
        ),
    ]
    calls = {name: _calls(found) for each in COLLECTORS for name, found in sources(each).items()}
    for group in groups():
        parts.append(f"\n## {group.name}\n\n{group.help}\n\n{_HEAD}")
        parts += [_metric(family, group.source or calls.get(family.name, "")) for family in group.families]
    return "".join(parts)


_HEAD = "| Metric | Type | Labels | Meaning | Stability | Made from |\n|---|---|---|---|---|---|\n"
_SHOWN = {Shown.ALL: "", Shown.NONZERO: " Shown while not 0.", Shown.ZERO: " Shown while 0."}
_MAX_FIELDS = 3
"""Fields that are named one by one; more are shown by what their names begin with."""


def _calls(found: Sequence[str]) -> str:
    fields = [name for name in found if name.startswith(_FIELD)]
    functions = [name for name in found if not name.startswith(_FIELD)]
    if len(fields) > _MAX_FIELDS:
        families = Counter("_".join(name.removeprefix(_FIELD).split("_")[:2]) for name in fields)
        fields = [f"{_FIELD}{start}\\* ({count})" for start, count in sorted(families.items())]
    return ", ".join([*functions, *fields])


def _metric(family: AnyFamily, source: str) -> str:
    if not source:
        raise SystemExit(
            f"{family.name}: no simulated model shows it; say in sampling/families.py what its group is made from"
        )
    labels = ", ".join(f"`{label}`" for label in family.all_labels) or "none"
    meaning = f"{_cell(family.help)}{' Hidden by default.' if family.name in HIDDEN_METRICS else _SHOWN[family.shown]}"
    cells = (f"`{family.name}`", family.type.value, labels, meaning, family.stability.value, source)
    return f"| {' | '.join(cells)} |\n"


def option_table() -> str:
    parts = [
        "# Options\n\n",
        _NOTE,
        (
            "\nA flag wins over its environment variable, that over the YAML file (`--config.file`, "
            "`GPU_EXPORTER_CONFIG_FILE`), that over the default. A YAML key is the flag's name, written whole "
            "(`web.listen-address: …`) or nested (`web: {listen-address: …}`); an option that has others below it is "
            "set by the key `value` (`attribution: {kubernetes: {value: on, api: true}}`). A list of names may be a "
            "YAML list, and a list of NAME=VALUE a mapping.\n"
        ),
    ]
    by_group: dict[str, list[Option]] = {}
    for option in options_of(DaemonConfig):
        by_group.setdefault(option.group, []).append(option)
    for name, members in by_group.items():
        parts.append(f"\n## {name}\n\n| Flag | Environment | Default | Meaning |\n|---|---|---|---|\n")
        parts += [_option(option) for option in members]
        parts += _BELOW.get(name, tuple)()
    return "".join(parts)


def _collectors() -> Iterable[str]:
    """Yield the table of what `--collectors.disable` may name."""
    yield "\n| Collector | Reads |\n|---|---|\n"
    for name, about in HELP.items():
        yield f"| `{name}` | {_cell(about)} |\n"


def _thresholds() -> Iterable[str]:
    """Yield the table of what `--ledger.thresholds` may hold."""
    yield (
        "\n`ledger.thresholds` is a mapping in the configuration file "
        "(`ledger: {thresholds: {wait-cover: 0.4, polls-after: 20}}`). As a flag or environment variable it is a list "
        "(`wait-cover=0.4,polls-after=20`). What is left out keeps its default.\n\n"
        "| Threshold | Default | Meaning |\n|---|---|---|\n"
    )
    for each in THRESHOLDS:
        yield f"| `{each.option}` | `{each.default:.12g}` | {_cell(each.help)} |\n"


_BELOW: Mapping[str, Callable[[], Iterable[str]]] = {"Collectors": _collectors, "Ledger": _thresholds}
"""By group: what stands below its options."""


def _option(option: Option) -> str:
    flag = option.flag if option.switch else f"{option.flag}={option.metavar}"
    default = option.shown_default
    shown = f"`{default}`" if default else ""
    return f"| `{flag}` | `{option.environment}` | {shown} | {_cell(option.help)} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PAGES = {"metrics.md": metrics, "options.md": option_table}


def outdated(docs: Path) -> Iterable[str]:
    """Names of the pages that differ from the declarations."""
    for name, made in PAGES.items():
        path = docs / name
        if not exists(path) or path.read_text() != made():
            yield name


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("docs", type=Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if arguments.check:
        found = list(outdated(arguments.docs))
        sys.stderr.write(
            "".join(f"{arguments.docs / name} is not up to date: run `make reference`\n" for name in found)
        )
        return 1 if found else 0
    for name, made in PAGES.items():
        (arguments.docs / name).write_text(made())
    return 0


if __name__ == "__main__":
    sys.exit(main())
