"""A Prometheus data folder made from text, with the recording rules and alerts as they would have been evaluated."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import promql_parser as promql
import requests
import yaml

from deploy.prometheus.recordings import GROUPS
from deploy.prometheus.render import MEANINGS
from exporter.tools.report.accounting.prices import KINDS, PriceRow, Prices
from exporter.tools.report.accounting.prices import promql as site_prices
from tests.e2e.dashboards.history import Span
from tests.stack import ROOT, program, prometheus

RULES = ROOT / "deploy/prometheus/rules"
PRICES = Prices(
    "USD",
    (
        PriceRow("NVIDIA A100", 0.6, pool="spot"),
        PriceRow("NVIDIA H100", 3.0),
        PriceRow("NVIDIA A100", 1.8),
        PriceRow("NVIDIA L40S", 1.0),
    ),
)
"""What the site pays for the models of the tests."""
_CHANGE = 0.2
"""Part by which prices are lower in the first half of a span, and higher in the other."""
RULES_EVERY = 60
"""Seconds; the groups' interval, on which sums of recorded series rely."""


@dataclass(frozen=True)
class Archive:
    """`folder`/prometheus is the data of a Prometheus that knows no targets and no rules."""

    folder: Path
    span: Span
    lookback: str = "5m"
    """For how long a series counts after its last sample: text that promtool reads cannot say that one ended."""
    prices: Prices = PRICES

    def add(self, text: Path) -> None:
        command = [program("promtool"), "tsdb", "create-blocks-from", "openmetrics", "--quiet", text, self.data]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]

    @property
    def data(self) -> Path:
        return self.folder / "prometheus"

    def served(self) -> Any:
        """Context manager: the URL of a Prometheus on this data."""
        config = self.folder / "prometheus.yml"
        config.write_text("global: {}\n")
        return prometheus(config, self.folder, f"--query.lookback-delta={self.lookback}")

    def evaluate(self) -> None:
        """Add what recording rules and alerts make of the data; each layer of rules needs those below it."""
        span = replace(self.span, step=RULES_EVERY)
        for number, layer in enumerate(_layers(_recordings(self.prices))):
            for name, rules, part in _parts(layer, span):
                self._add_lines(f"layer{number}{name}", lambda url, rules=rules, part=part: _recorded(url, rules, part))
        self._add_lines("alerts", lambda url: _alerts(url, span))

    def _add_lines(self, name: str, lines: Any) -> None:
        text = self.folder / f"{name}.om"
        with self.served() as url, text.open("w") as out:
            out.writelines(f"{line}\n" for line in lines(url))
            out.write("# EOF\n")
        self.add(text)


def ask(url: str, expr: str, span: Span) -> list[dict[str, Any]]:
    """The series of a range query. Raises where Prometheus refuses it."""
    form = {"query": expr, "start": span.start, "end": span.end, "step": span.step}
    return _result(requests.post(f"{url}/api/v1/query_range", data=form, timeout=60))


def ask_at(url: str, expr: str, time: float) -> list[dict[str, Any]]:
    """The elements of an instant query."""
    return _result(requests.post(f"{url}/api/v1/query", data={"query": expr, "time": time}, timeout=60))


def _result(response: requests.Response) -> list[dict[str, Any]]:
    answer = response.json()
    if answer["status"] != "success":
        raise AssertionError(answer["error"])
    found = answer["data"]["result"]
    return found if answer["data"]["resultType"] != "scalar" else [{"metric": {}, "value": found}]


def _rules(file: str, kind: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load((RULES / file).read_text())["groups"]
    return [rule for group in groups for rule in group["rules"] if kind in rule]


def _recordings(prices: Prices) -> dict[str, str]:
    found = {rule.record: rule.expr for group in GROUPS for rule in group.rules}
    return {
        **found,
        MEANINGS.record: MEANINGS.expr,
        KINDS["record"]: KINDS["expr"],
        "gpu:price_per_hour": site_prices(prices),
    }


def rising(prices: Prices, at: float) -> Prices:
    """Return prices of the same mean that rise at a moment."""
    rows = (
        replace(row, per_gpu_hour=row.per_gpu_hour * factor, begin=begin, end=end)
        for row in prices.rows
        for factor, begin, end in ((1 - _CHANGE, 0.0, at), (1 + _CHANGE, at, float("inf")))
    )
    return replace(prices, rows=tuple(rows))


def _layers(rules: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Rules whose expressions ask no rule of the same or a later layer; one may ask what it was itself before.

    Rules that ask for one another's past are a layer of their own, in the order of the file.
    """
    left = dict(rules)
    while left:
        asked = {name: _names(expr) & left.keys() - {name} for name, expr in left.items()}
        ready = {name: left[name] for name, names in asked.items() if not names}
        ready = ready or {name: left[name] for name in _circle(asked)}
        yield ready
        left = {name: expr for name, expr in left.items() if name not in ready}


def _circle(asked: Mapping[str, set[str]]) -> list[str]:
    """Rules that ask for one another and for no other rule."""
    reached = {name: _reached(name, asked) for name in asked}
    return next([each for each in asked if each in names] for name, names in reached.items() if _alike(names, reached))


def _alike(names: set[str], reached: Mapping[str, set[str]]) -> bool:
    return all(reached[name] == names for name in names)


def _reached(name: str, asked: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    new = asked[name]
    while new:
        found |= new
        new = {each for one in new for each in asked[one]} - found
    return found


_FIRST_EVALUATIONS = 5


def _parts(layer: Mapping[str, str], span: Span) -> Iterator[tuple[str, dict[str, str], Span]]:
    """A name, rules and the span to evaluate them for. Rules that ask for their own past get some minutes first."""
    looking_back = {name: expr for name, expr in layer.items() if _names(expr) & layer.keys()}
    yield "", {name: expr for name, expr in layer.items() if name not in looking_back}, span
    middle = span.start + _FIRST_EVALUATIONS * span.step
    parts = (replace(span, end=min(middle - span.step, span.end)), replace(span, start=middle))
    for part in (each for each in parts if each.start <= each.end):
        for number, (name, expr) in enumerate(looking_back.items()):
            yield f"-{part.start}-{number}", {name: expr}, part


def _names(expr: str) -> set[str]:
    """Metrics an expression asks for."""
    found: set[str] = set()

    def visit(node: Any) -> None:
        if isinstance(node, promql.VectorSelector):
            found.add(node.name)
        for name in ("lhs", "rhs", "expr", "param", "vector_selector"):
            child = getattr(node, name, None)
            if isinstance(child, promql.Expr):
                visit(child)
        for child in getattr(node, "args", None) or ():
            visit(child)

    visit(promql.parse(expr))
    return found


def _recorded(url: str, rules: Mapping[str, str], span: Span) -> Iterator[str]:
    """Lines in order of time: a series that is now of a metric, now of a calculation is one when it is recorded."""
    for name, expr in rules.items():
        found: dict[str, list[tuple[float, str]]] = defaultdict(list)
        for series in ask(url, expr, span):
            found[_series(name, series["metric"])] += ((float(at), value) for at, value in series["values"])
        for text, samples in found.items():
            yield from (f"{text} {value} {at:.0f}" for at, value in sorted(samples))


def _alerts(url: str, span: Span) -> Iterator[str]:
    for rule in _rules("gpu-alerts.yaml", "alert"):
        wait, keep = _seconds(rule.get("for", "0s")), _seconds(rule.get("keep_firing_for", "0s"))
        for series in ask(url, rule["expr"], span):
            labels = series["metric"] | rule["labels"] | {"alertname": rule["alert"]}
            true = {at for at, _ in series["values"]}
            yield from _firing(labels, true, (wait, keep), span.times)


def _seconds(duration: str) -> float:
    return 0.0 if duration == "0s" else float(promql.parse_duration(duration).total_seconds())


def _firing(
    labels: Mapping[str, str], true: set[float], waits: tuple[float, float], times: Iterable[int]
) -> Iterator[str]:
    """ALERTS and ALERTS_FOR_STATE of one alert whose expression holds at the times `true`."""
    wait, keep = waits
    since = last = None
    for at in times:
        if at in true:
            since, last = (at if since is None else since), at
        elif last is not None and since is not None and (last - since < wait or at - last > keep):
            since = last = None
        if since is not None:
            yield f"{_series('ALERTS_FOR_STATE', labels)} {since} {at}"
            if at - since >= wait:
                yield f"{_series('ALERTS', {**labels, 'alertstate': 'firing'})} 1 {at}"


def _series(name: str, labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{key}="{value}"' for key, value in labels.items() if key != "__name__" and "{" not in value)
    return f"{name}{{{pairs}}}"
