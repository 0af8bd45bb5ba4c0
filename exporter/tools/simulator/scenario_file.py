"""A simulation described in a YAML file: several nodes, workloads that come and go, faults with their times.

gpus: 8xH200                 # of every node
seed: 3
driver: 580.95.05
start: 1763000000            # Unix seconds; when left out, the moment the simulation starts
nodes: 32                    # node001 … node032; or a list of names
workloads:
  - name: llm                # Slurm job name, or the stem of the pod's name
    pattern: training
    scheduler: slurm         # or kubernetes
    user: ada
    account: physics
    nodes: [node001, node002]  # all of them when left out
    gpus: 0-7                # all when left out; 0.1 is MIG instance 1 of GPU 0
    job: 4711                # Slurm job id of the first run
    start: 10m               # seconds, or with s, m, h, d
    duration: 6h
    every: 8h                # runs again as a new job
faults:
  - {kind: thermal, node: node001, gpu: 3, at: 1h, duration: 20m}
"""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from exporter.core.site_file import SiteFileError, load_yaml
from exporter.tools.simulator.patterns import KINDS, PATTERNS, Fault
from exporter.tools.simulator.scenario import DRIVER, Plan, Scenario, Settings, parse_gpus
from exporter.tools.simulator.workload import Place, Workload

MAX_NODES = 4096
_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)")
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PLACE = re.compile(r"(?P<gpu>[0-9]{1,2})(?:\.(?P<slot>[0-9])|-(?P<last>[0-9]{1,2}))?")
_TOP = ("gpus", "seed", "driver", "start", "nodes", "workloads", "faults")
_WORKLOAD = ("name", "pattern", "scheduler", "user", "account", "partition", "namespace", "nodes", "gpus", "job",
             "start", "duration", "every")  # fmt: skip
_FAULT = ("kind", "node", "gpu", "at", "duration", "xid")


@dataclass(frozen=True, slots=True)
class _Entry:
    """One mapping of the file; `where` names it in errors."""

    where: str
    values: Mapping[str, Any]

    def text(self, key: str, default: str = "") -> str:
        value = self.values.get(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, value, "text")
        return value

    def number(self, key: str, default: float) -> float:
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise self.wrong(key, value, "a number of at least 0")
        return float(value)

    def seconds(self, key: str, default: float) -> float:
        value = self.values.get(key)
        if value is None:
            return default
        match = _TIME.fullmatch(value) if isinstance(value, str) else None
        return float(match[1]) * _SECONDS[match[2]] if match else self.number(key, default)

    def choice(self, key: str, choices: Sequence[str], default: str = "") -> str:
        value = self.values.get(key, default)
        if value not in choices:
            raise self.wrong(key, value, f"one of {', '.join(choices)}")
        return str(value)

    def names(self, key: str, known: Sequence[str]) -> Sequence[str]:
        """The known names that a pattern or one of a list of patterns fits; all where the key is not there."""
        value: Any = self.values.get(key)
        if value is None:
            return known
        patterns: list[Any] = _as_list(value) or [value]
        for pattern in patterns:
            if not any(fnmatch.fnmatchcase(name, str(pattern)) for name in known):
                raise self.wrong(key, pattern, f"a node among {_some_names(known)}")
        return [name for name in known if any(fnmatch.fnmatchcase(name, str(pattern)) for pattern in patterns)]

    def entries(self, key: str, keys: Sequence[str]) -> list[_Entry]:
        value: Any = self.values.get(key, [])
        items = _as_list(value)
        if items is None:
            raise self.wrong(key, value, "a list")
        return [_check_entry(f"{self.where}: {key}[{index}]", item, keys) for index, item in enumerate(items)]

    def wrong(self, key: str, value: object, expected: str) -> ValueError:
        return ValueError(f"{self.where}: {key} is {value!r}; expected {expected}")


def load_scenario(path: str, settings: Settings) -> Scenario:
    """The scenario of one node of the file: the one `settings.node` names, else the first.

    Raises ValueError, one line that names the file and what was expected.
    """
    entry = _check_entry(f"{path}", _load_file(path), _TOP)
    nodes = _expand_nodes(entry)
    node = settings.node if settings.node in nodes else nodes[0]
    plans = _gpu_plans(entry, node)
    if settings.node not in (node, Settings().node):
        raise ValueError(f"node={settings.node}; expected a node of {path}: {_some_names(nodes)}")
    workloads = [
        _parse_workload(item, nodes, plans, node, 4000 + index)
        for index, item in enumerate(entry.entries("workloads", _WORKLOAD))
    ]
    faults = [_parse_fault(item, nodes, node, len(plans)) for item in entry.entries("faults", _FAULT)]
    return Scenario(
        gpus=tuple(plans),
        workloads=tuple(each for each in workloads if each),
        faults=(*(fault for fault in faults if fault), *settings.faults),
        seed=settings.seed or int(entry.number("seed", 0)),
        driver=entry.text("driver", DRIVER) if settings.driver == DRIVER else settings.driver,
        node=node,
        start=entry.number("start", 0.0)
        if settings.start is None and entry.values.get("start") is not None
        else settings.start,
    )


def node_names(path: str) -> tuple[str, ...]:
    """The nodes a file describes."""
    return tuple(_expand_nodes(_check_entry(f"{path}", _load_file(path), _TOP)))


def _load_file(path: str) -> Any:
    try:
        return load_yaml(Path(path))
    except SiteFileError as error:
        raise ValueError(f"{path}: {error}; expected a readable YAML file") from None


def _check_entry(where: str, value: Any, keys: Sequence[str]) -> _Entry:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is no mapping; expected keys among {', '.join(keys)}")  # noqa: TRY004 - user's input
    mapping = cast("Mapping[Any, Any]", value)
    for key in mapping:
        if key not in keys:
            raise ValueError(f"{where}: key {key!r} is not known; expected one of {', '.join(keys)}")
    return _Entry(where, mapping)


def _gpu_plans(entry: _Entry, node: str) -> list[Plan]:
    value = entry.values.get("gpus", "8xH200")
    if not isinstance(value, dict):
        return parse_gpus(entry.text("gpus", "8xH200"))
    by_name = cast("Mapping[Any, Any]", value)
    found = next((gpus for pattern, gpus in by_name.items() if fnmatch.fnmatchcase(node, str(pattern))), None)
    if not isinstance(found, str):
        raise entry.wrong("gpus", found, f"GPUs for {node}")
    return parse_gpus(found)


def _expand_nodes(entry: _Entry) -> Sequence[str]:
    value: Any = entry.values.get("nodes", 1)
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_NODES:
        return [f"node{number:03d}" for number in range(1, value + 1)]
    names = _as_list(value)
    if names and all(isinstance(name, str) for name in names):
        return names
    raise entry.wrong("nodes", value, f"a number from 1 to {MAX_NODES} or a list of names")


def _parse_workload(item: _Entry, nodes: Sequence[str], plans: Sequence[Plan], node: str, job: int) -> Workload | None:
    """None where it does not run on this node."""
    on = item.names("nodes", nodes)
    here = node in on
    pattern = PATTERNS[item.choice("pattern", tuple(PATTERNS), "training")]
    workload = Workload(
        name=item.text("name", pattern.name),
        pattern=pattern,
        places=_parse_places(item, plans) if here else (),
        slurm=item.choice("scheduler", ("slurm", "kubernetes"), "slurm") == "slurm",
        user=item.text("user", "ada"),
        account=item.text("account", "research"),
        partition=item.text("partition", "gpu"),
        namespace=item.text("namespace", "ml"),
        job=int(item.number("job", job)),
        start=item.seconds("start", 0.0),
        duration=item.seconds("duration", math.inf),
        every=item.seconds("every", 0.0),
    )
    if workload.every and workload.duration > workload.every:
        raise item.wrong("every", item.values.get("every"), "at least the duration")
    return replace(workload, rank=on.index(node), nodes=len(on)) if here else None


def _parse_places(item: _Entry, plans: Sequence[Plan]) -> tuple[Place, ...]:
    text = item.values.get("gpus")
    if text is None:
        return tuple(Place(gpu, slot) for gpu, plan in enumerate(plans) for slot in plan.slots)
    places: list[Place] = []
    for word in str(text).split(","):
        match = _PLACE.fullmatch(word.strip())
        gpus = range(int(match["gpu"]), int(match["last"] or match["gpu"]) + 1) if match else range(0)
        if not match or not gpus or gpus[-1] >= len(plans):
            raise item.wrong("gpus", text, f"GPUs from 0 to {len(plans) - 1}, such as 0-3,5 or 0.1")
        slots = [int(match["slot"])] if match["slot"] else None
        found = [Place(gpu, slot) for gpu in gpus for slot in (slots or plans[gpu].slots)]
        if any(place.slot not in plans[place.gpu].slots for place in found):
            raise item.wrong("gpus", text, "instances that these GPUs have")
        places += [place for place in found if place not in places]
    return tuple(places)


def _parse_fault(item: _Entry, nodes: Sequence[str], node: str, gpus: int) -> Fault | None:
    """None where it hits another node."""
    kind = KINDS[item.choice("kind", tuple(KINDS))]
    where = item.text("node")
    if where and where not in nodes:
        raise item.wrong("node", where, f"a node among {_some_names(nodes)}")
    at, duration = item.seconds("at", kind.begins), item.seconds("duration", math.inf)
    xid = int(item.number("xid", 0))
    if where not in ("", node):
        return None
    gpu = item.values.get("gpu")
    if gpu is not None and (isinstance(gpu, bool) or not isinstance(gpu, int) or not 0 <= gpu < gpus):
        raise item.wrong("gpu", gpu, f"a number from 0 to {gpus - 1}")
    return Fault(kind, gpu, at, duration, xid)


def _as_list(value: Any) -> list[Any] | None:
    return list(cast("Sequence[Any]", value)) if isinstance(value, list) else None


def _some_names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f", … ({len(names)})" if len(names) > 3 else "")  # noqa: PLR2004
