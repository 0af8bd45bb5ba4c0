"""docs/metrics.md and docs/options.md, made from the declarations in exporter/."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from exporter.collectors import COLLECTORS
from exporter.collectors.base import AnyCollector, Scope, Tick
from exporter.config.option import Option, options_of
from exporter.core.clock import UnixTime
from exporter.core.families import AnyFamily, Sample, Shown
from exporter.daemon.config import DaemonConfig
from exporter.driver import constants
from exporter.driver.interface import Device, DriverError, UnsupportedError
from exporter.exposition import HIDDEN_METRICS
from exporter.ledger.states import THRESHOLDS
from exporter.sampling.families import groups
from exporter.tools.reference.sections import definitions, table_row
from exporter.tools.simulator import simulate

_NODES = (
    "2xH200:training", "2xA100-mig:training", "2xH100-mig:training", "2xB200:training",
    "2xV100:training", "2xRTX4090:training", "2xT4:training;driver=470.82.01",
    "2xL40S:inference", "2xA10:training;driver=525.60.13",
)  # fmt: skip
_START, _CYCLES, _CYCLE_SECONDS = 1_700_000_000.0, 3, 31.0
"""Each cycle is long enough for everything to be due."""
_FIELD_VALUES = "nvmlDeviceGetFieldValues"

_FIELD_NAMES = {value: name for name, value in vars(constants).items() if name.startswith("NVML_FI_")}

SamplesByFamily = Mapping[str, tuple[Sample, ...]]


class _Refusing(Device):
    """A device that refuses some calls; `answered` are those it answered. A field is a call of its own."""

    def __init__(self, device: Device, allowed: Callable[[str], bool], answered: set[str]) -> None:
        self.index, self.uuid, self.pci_bus_id, self.minor = device.index, device.uuid, device.pci_bus_id, device.minor
        self.parent_uuid, self.mig = device.parent_uuid, device.mig
        self.instances = tuple(_Refusing(each, allowed, answered) for each in device.instances)
        self._device, self._allowed, self._answered = device, allowed, answered

    def call(self, function: str, *args: Any) -> Any:
        if function == _FIELD_VALUES:
            return self._fields(args[0])
        if not self._allowed(function):
            raise UnsupportedError(f"{function}: refused")
        answer = self._device.call(function, *args)
        self._answered.add(function)
        return answer

    def _fields(self, wanted: Collection[tuple[int, int]]) -> tuple[Any, ...]:
        answers = self._device.call(_FIELD_VALUES, wanted)
        kept = [
            answer if self._allowed(_field_name(field)) else None
            for (field, _), answer in zip(wanted, answers, strict=True)
        ]
        self._answered.update(
            _field_name(field) for (field, _), answer in zip(wanted, kept, strict=True) if answer is not None
        )
        return tuple(kept)


def _field_name(field: int) -> str:
    return _FIELD_NAMES.get(field, f"field {field}")


def _samples_of(
    collector: AnyCollector, spec: str, allowed: Callable[[str], bool], answered: set[str]
) -> SamplesByFamily:
    """The samples by family after some cycles on a simulated node; families without any are left out."""
    now = [_START]
    driver = simulate(spec, lambda: now[0])
    driver.open()
    target = next(iter(_all_targets(driver.devices(), collector.scope)), None)
    if target is None:
        return {}
    device, reading = _Refusing(target, allowed, answered), None
    for _ in range(_CYCLES):
        now[0] += _CYCLE_SECONDS
        try:
            reading = collector.read(device, reading, Tick(UnixTime(now[0]), _CYCLE_SECONDS))
        except DriverError:
            return {}
    samples = {family.name: family.collect(reading) for family in collector.families}
    return {name: found for name, found in samples.items() if found}


def _all_targets(devices: Iterable[Device], scope: Scope) -> Iterator[Device]:
    for device in devices:
        if scope is Scope.GPU:
            yield device
        else:
            yield from device.instances


@cache
def sources(collector: AnyCollector) -> Mapping[str, tuple[str, ...]]:
    """Return by family the calls without which its samples would be others, on any of the nodes.

    Where calls stand in for each other, those of which each alone is enough.
    """
    found: dict[str, set[str]] = {family.name: set() for family in collector.families}
    for spec in _NODES:
        for name, calls in _needed_calls(collector, spec).items():
            found[name] |= calls
    for spec in _NODES if not all(found.values()) else ():
        for name, calls in _sufficient_calls(
            collector, spec, {name for name, calls in found.items() if not calls}
        ).items():
            found[name] |= calls
    return {name: tuple(sorted(calls)) for name, calls in found.items()}


def _needed_calls(collector: AnyCollector, spec: str) -> Mapping[str, set[str]]:
    whole, answered = _all_samples(collector, spec)
    found: dict[str, set[str]] = {name: set() for name in whole}
    for call in answered:
        without = _samples_of(collector, spec, call.__ne__, set())
        for name in whole:
            if without.get(name) != whole[name]:
                found[name].add(call)
    return found


def _sufficient_calls(collector: AnyCollector, spec: str, names: set[str]) -> Mapping[str, set[str]]:
    whole, answered = _all_samples(collector, spec)
    for call in tuple(answered):  # what is asked only where another has no answer
        _samples_of(collector, spec, call.__ne__, answered)
    shown = {call: _samples_of(collector, spec, call.__eq__, set()) for call in answered}
    return {name: {call for call, alone in shown.items() if name in alone} for name in names & whole.keys()}


def _all_samples(collector: AnyCollector, spec: str) -> tuple[SamplesByFamily, set[str]]:
    answered: set[str] = set()
    return _samples_of(collector, spec, lambda _: True, answered), answered


_FIELD = "NVML_FI_DEV_"
_NOTE = "<!-- Made by `make reference` from the declarations in exporter/. Do not edit. -->\n"


def metrics() -> str:
    parts = [
        "# Metrics\n\n",
        _NOTE,
        (
            "\nFor authors of queries, rules and dashboards.\n\n"
            "- Units are base units.\n"
            "- If a GPU does not report a value, the series is absent. It is never NaN and never a made-up 0.\n"
            "- Counters start at 0 with the exporter. They never decrease while it runs, driver reloads included.\n"
            "- Owner labels (`workload`, `kind`, `namespace`, `pod`, `container`, `slurm_job`, `user`, `account`, "
            "`partition`) are always present. A label that does not apply is empty.\n"
            "- The default of `--metrics.hide` hides some metrics: see [options](options.md).\n"
            "- Stable names change only over a release that has both names. Experimental ones may change in any.\n"
            "- Prometheus's client library adds `process_…` and `python_…` metrics.\n"
            "- *Made from* names the driver calls, or the part of the exporter, that the metric needs.\n"
        ),
    ]
    calls = {name: _call_list(found) for each in COLLECTORS for name, found in sources(each).items()}
    for group in groups():
        parts.append(f"\n## {group.name}\n\n{group.help}\n\n{_HEAD}")
        parts += [_metric_row(family, group.source or calls.get(family.name, "")) for family in group.families]
    return "".join((*parts, "\n## Numbers on dashboards and reports\n\n", definitions(), "\n"))


_HEAD = "| Metric | Type | Labels | Meaning | Stability | Made from |\n|---|---|---|---|---|---|\n"
_SHOWN = {Shown.ALL: "", Shown.NONZERO: " Shown while not 0.", Shown.ZERO: " Shown while 0."}
_MAX_FIELDS = 3
"""Fields that are named one by one; more are shown by what their names begin with."""


def _call_list(found: Sequence[str]) -> str:
    fields = [name for name in found if name.startswith(_FIELD)]
    functions = [name for name in found if not name.startswith(_FIELD)]
    if len(fields) > _MAX_FIELDS:
        families = Counter("_".join(name.removeprefix(_FIELD).split("_")[:2]) for name in fields)
        fields = [f"{_FIELD}{start}\\* ({count})" for start, count in sorted(families.items())]
    return ", ".join([*functions, *fields])


def _metric_row(family: AnyFamily, source: str) -> str:
    if not source:
        raise SystemExit(
            f"{family.name}: no simulated model shows it; say in sampling/families.py what its group is made from"
        )
    labels = ", ".join(f"`{label}`" for label in family.all_labels) or "none"
    meaning = f"{family.help}{' Hidden by default.' if family.name in HIDDEN_METRICS else _SHOWN[family.shown]}"
    cells = (f"`{family.name}`", family.type.value, labels, meaning, family.stability.value, source)
    return f"{table_row(cells)}\n"


def option_table() -> str:
    parts = [
        "# Options\n\n",
        _NOTE,
        (
            "\nA flag wins over its environment variable. The environment wins over the YAML file (`--config.file`, "
            "`GPU_EXPORTER_CONFIG_FILE`). A YAML key is the flag's name, written whole "
            "(`web.listen-address: …`) or nested (`web: {listen-address: …}`). An option that has others below it is "
            "set by the key `value` (`attribution: {kubernetes: {value: on, api: true}}`). A list of names may be a "
            "YAML list, and a list of NAME=VALUE a mapping.\n"
        ),
    ]
    by_group: dict[str, list[Option]] = {}
    for option in options_of(DaemonConfig):
        by_group.setdefault(option.group, []).append(option)
    for name, members in by_group.items():
        parts.append(f"\n## {name}\n\n| Flag | Environment | Default | Meaning |\n|---|---|---|---|\n")
        parts += [_option_row(option) for option in members]
        parts += _BELOW.get(name, tuple)()
    return "".join(parts)


def _threshold_table() -> Iterable[str]:
    """Yield the table of what `--ledger.thresholds` may hold."""
    yield (
        "\n`ledger.thresholds` is a mapping in the configuration file "
        "(`ledger: {thresholds: {wait-cover: 0.4, blocked: 0.6}}`). As a flag or environment variable it is a list "
        "(`wait-cover=0.4,blocked=0.6`). What is left out keeps its default.\n\n"
        "| Threshold | Default | Meaning |\n|---|---|---|\n"
    )
    for each in THRESHOLDS:
        yield f"{table_row((f'`{each.option}`', f'`{each.default:.12g}`', each.help))}\n"


_BELOW: Mapping[str, Callable[[], Iterable[str]]] = {"Ledger": _threshold_table}
"""Functions by group. Each gives the text below the group's options."""


def _option_row(option: Option) -> str:
    flag = option.flag if option.switch else f"{option.flag}={option.metavar}"
    default = option.shown_default
    shown = f"`{default}`" if default else ""
    return f"{table_row((f'`{flag}`', f'`{option.environment}`', shown, option.help))}\n"


PAGES = {"metrics.md": metrics, "options.md": option_table}


if __name__ == "__main__":
    for page, made in PAGES.items():
        (Path(sys.argv[1]) / page).write_text(made())
