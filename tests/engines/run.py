"""`make test-engines`: a sharded fleet writes to VictoriaMetrics and Thanos, which are down for five minutes.

Two Prometheus scrape a half of the nodes each, record the accounting of it, and write all to a third Prometheus and to
each engine, with the other rules in the ruler of each. Both have a replica that writes the accounting alone. Then the
engines have lost nothing, the dashboards give the series and values that they give in Prometheus, and so do the totals
over the whole time, in which replicas count once. Needs Go.

Three facts of the engines set what equal means. Rulers evaluate at other seconds than Prometheus: all rules run every
minute here, and a value is right that Prometheus had within ten minutes. `rate` of MetricsQL does not extrapolate, so
it differs while a series is young: no workload begins in the last minutes. PromQL leaves open which of equals `topk`
takes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from exporter.tools.report import promql
from exporter.tools.report.accounting.prices import PriceRow, Prices
from exporter.tools.report.accounting.prices import rules as price_rules
from tests.contract.dashboards.reading import NAMES, panels
from tests.e2e.dashboards.history import Span
from tests.e2e.dashboards.reader import Reader
from tests.e2e.dashboards.tsdb import RULES, ask_at
from tests.engines.build import FOLDER, build
from tests.scale.cluster import exporters
from tests.scale.moulds import SPECS
from tests.stack import free_port, program, prometheus, running

SCRAPE_SECONDS, SHARDS = 10, 2
TOTAL_TOLERANCE, TOLERANCE = 0.001, 0.2
"""A sum over five minutes may have one of five evaluations more or less."""
MOMENTS = range(-1, 10)
"""Minutes ago in which Prometheus had a value: its evaluation may come after that of the engine."""
_CHURN_MINUTES = 1
"""Workloads begin and end up to so long after the outage."""
_PRICES = Prices("USD", (PriceRow("", 2.0),))
_REPLICAS = {"replica", "ruler", "receive", "tenant_id"}
_CHOSEN = re.compile(r"\b(top|bottom)k( by \([^)]*\))? ?\(")
_ACCOUNTING = ".+:gpu_owner_.+"
_REFUSED = "non-recoverable error"
"""What Prometheus logs about samples that it gives up."""
_NAMES = 'count by (name) (label_replace({__name__=~"gpu_.+",job="gpu-exporter"}, "name", "$1", "__name__", "(.+)"))'


@dataclass(frozen=True)
class Engine:
    """How it is started; `{data}` is its folder. The first command is the store, which is stopped and started again."""

    name: str
    query: str
    write: str
    commands: tuple[tuple[str, ...], ...]


def engines(rules: Sequence[Path]) -> tuple[Engine, Engine]:
    ports = [free_port() for _ in range(9)]
    victoria, alert, receive, grpc, write, query, query_grpc, ruler, ruler_grpc = (
        f"127.0.0.1:{port}" for port in ports
    )
    own = tuple(f"-rule={file}" for file in rules)
    both = tuple(f"--rule-file={file}" for file in rules)
    url, thanos = f"http://{victoria}", str(FOLDER / "thanos")
    endpoints = [{"address": grpc, "strict": True}, {"address": ruler_grpc}]
    return (
        Engine(
            "VictoriaMetrics",
            url,
            f"{url}/api/v1/write",
            (
                (str(FOLDER / "victoria-metrics"), "-storageDataPath={data}/vm", f"-httpListenAddr={victoria}",
                 "-search.latencyOffset=0s", "-search.minStalenessInterval=5m"),
                (str(FOLDER / "vmalert"), f"-datasource.url={url}", f"-remoteWrite.url={url}", f"-remoteRead.url={url}",
                 "-notifier.blackhole", f"-httpListenAddr={alert}", "-rule.evalDelay=0s", *own),
            ),
        ),
        Engine(
            "Thanos",
            f"http://{query}",
            f"http://{write}/api/v1/receive",
            (
                (thanos, "receive", "--tsdb.path={data}/receive", f"--grpc-address={grpc}", f"--http-address={receive}",
                 f"--remote-write.address={write}", "--tsdb.out-of-order.time-window=2h", '--label=receive="a"'),
                (thanos, "query", f"--http-address={query}", f"--grpc-address={query_grpc}",
                 f"--endpoint.sd-config={json.dumps({'endpoints': endpoints})}",
                 *(f"--query.replica-label={label}" for label in ("receive", "ruler"))),
                (thanos, "rule", "--data-dir={data}/rule", "--eval-interval=1m", f"--query={query}",
                 '--label=ruler="a"', f"--http-address={ruler}", f"--grpc-address={ruler_grpc}", *both),
            ),
        ),
    )  # fmt: skip


def _rule_files(folder: Path) -> tuple[list[Path], Path]:
    """Return the shipped rules without the group of the accounting, and that group with prices."""
    names = ("gpu-recording.yaml", "gpu-alerts.yaml")
    groups = [
        {**group, "interval": "1m"} for name in names for group in yaml.safe_load((RULES / name).read_text())["groups"]
    ]
    own = [group for group in groups if group["name"] == "gpu-accounting"]
    rest, accounting = folder / "gpu-rules.yaml", folder / "gpu-accounting.yaml"
    rest.write_text(yaml.safe_dump({"groups": [group for group in groups if group not in own]}))
    accounting.write_text(yaml.safe_dump({"groups": [*json.loads(price_rules(_PRICES))["groups"], *own]}))
    return [rest], accounting


def _shard(name: str, nodes: int, port: int, folder: Path, urls: Sequence[str], rules: Path) -> list[str]:
    """Return the command of a Prometheus that scrapes its part of the nodes, and records their accounting.

    The name is the number of the shard and the letter of the replica.
    """
    number, replica = name
    data = folder / f"shard{name}"
    targets = [
        {
            "targets": [f"127.0.0.1:{port}"],
            "labels": {"__metrics_path__": f"/{node}/metrics", "cluster": "c1", "instance": f"n{node}:9836"},
        }
        for node in range(nodes)
    ]
    shard = [
        {"source_labels": ["instance"], "modulus": SHARDS, "target_label": "__tmp_shard", "action": "hashmod"},
        {"source_labels": ["__tmp_shard"], "regex": number, "action": "keep"},
    ]
    scrape = {
        "job_name": "gpu-exporter",
        "scrape_interval": f"{SCRAPE_SECONDS}s",
        "static_configs": targets,
        "relabel_configs": shard,
    }
    config = data.with_suffix(".json")
    written = {"source_labels": ["__name__"], "regex": ".+" if replica == "a" else _ACCOUNTING, "action": "keep"}
    document = {
        "global": {"external_labels": {"shard": number, "replica": replica}},
        "rule_files": [str(rules)],
        "scrape_configs": [scrape],
        "remote_write": [{"url": url, "write_relabel_configs": [written]} for url in urls],
    }
    config.write_text(json.dumps(document))
    flags = (f"--storage.tsdb.path={data}", f"--web.listen-address=127.0.0.1:{free_port()}")
    return [program("prometheus"), *flags, f"--config.file={config}"]


def _start(engine: Engine, number: int, folder: Path, stack: ExitStack) -> Any:
    data = folder / engine.name
    data.mkdir(exist_ok=True)
    command = [part.replace("{data}", str(data)) for part in engine.commands[number]]
    return stack.enter_context(running(command, folder / f"{engine.name}-{number}-{time.time():.0f}.log"))


def play(nodes: int, minutes: int, down: int, settle: int) -> list[str]:
    """Return what is wrong."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpu-engines-")))
        rules, accounting = _rule_files(folder)
        config = folder / "prometheus.json"
        config.write_text(
            json.dumps({"rule_files": [str(file) for file in rules], "global": {"evaluation_interval": "1m"}})
        )
        url = stack.enter_context(prometheus(config, folder, "--web.enable-remote-write-receiver"))
        port = stack.enter_context(exporters(clock=_stopping(60 * (minutes + down + _CHURN_MINUTES))))
        found = engines(rules)
        stores = [_start(engine, 0, folder, stack) for engine in found]
        for engine in found:
            for number in range(1, len(engine.commands)):
                _start(engine, number, folder, stack)
        urls = [f"{url}/api/v1/write", *(engine.write for engine in found)]
        for number, replica in itertools.product(range(SHARDS), "ab"):
            command = _shard(f"{number}{replica}", nodes, port, folder, urls, accounting)
            stack.enter_context(running(command, folder / f"shard{number}{replica}.log"))
        began = time.time()
        _wait(minutes)
        for store in stores:
            store.terminate()
            store.wait()
        _say(f"both engines are down for {down} minutes")
        _wait(down)
        for engine in found:
            _start(engine, 0, folder, stack)
        _wait(settle)
        now = time.time() - 2 * SCRAPE_SECONDS
        wrong = [error for engine in found for error in _compare(engine, url, began, now)]
        refused = [
            line for log in folder.glob("shard*.log") for line in log.read_text().splitlines() if _REFUSED in line
        ]
        return [*wrong, *refused]


def _stopping(seconds: float) -> Callable[[], float]:
    """Return a clock that stops so many seconds from now."""
    last = time.time() + seconds
    return lambda: min(time.time(), last)


def _compare(engine: Engine, url: str, began: float, now: float) -> Iterator[str]:
    """Say how an engine's answers differ from Prometheus's."""
    window = f"{now - began - 60:.0f}s"
    names = [dict(labels)["name"] for labels in _values(url, _NAMES, now)]
    samples = {
        name: [
            _total(_values(each, f'sum(count_over_time({name}{{job="gpu-exporter"}}[{window}]))', now))
            for each in (url, engine.query)
        ]
        for name in names
    }
    kept, theirs = (sum(each[number] for each in samples.values()) for number in (0, 1))
    _say(f"{engine.name}: {theirs:,.0f} of {kept:,.0f} samples of {len(samples)} families")
    lost = {name: ours - own for name, (ours, own) in samples.items() if ours != own}
    if lost:
        yield f"{engine.name}: samples that are not there: {lost}"
    for level in (*promql.LEVELS, promql.TEAM, "cluster"):
        months = [
            _values(each, promql.allocated_gpu_hours(level, promql.EVERYTHING, window), now)
            for each in (url, engine.query)
        ]
        _say(f"{engine.name}: {level:9} {_total(months[1]):.4f} GPU h, in Prometheus {_total(months[0]):.4f}")
        yield from (
            f"{engine.name}: total by {level}: {each}" for each in _different(months[:1], months[1], TOTAL_TOLERANCE)
        )
    recorded = 'sum(sum_over_time(team:gpu_owner_gpu_seconds:increase{replica=~"CHOSEN"}[WINDOW])) / 3600'
    one, both = (
        _total(_values(engine.query, recorded.replace("CHOSEN", chosen).replace("WINDOW", window), now))
        for chosen in ("a", "a|b")
    )
    shown = _total(_values(engine.query, promql.allocated_gpu_hours(promql.TEAM, promql.EVERYTHING, window), now))
    _say(f"{engine.name}: {shown:.4f} GPU h of pairs, {one:.4f} of one of each, {both:.4f} of both")
    if abs(shown - one) > TOLERANCE * one or both < 1.5 * one:
        yield f"{engine.name}: totals of pairs"
    yield from _compare_dashboards(engine, url, Span(int(now) - 360, int(now) - 60, SCRAPE_SECONDS))


def _compare_dashboards(engine: Engine, url: str, span: Span) -> Iterator[str]:
    seen, equal = 0, 0
    earlier = [replace(span, start=span.start - 60 * ago, end=span.end - 60 * ago) for ago in MOMENTS]
    for name in NAMES:
        try:
            chosen = Reader(url, span, {}).values(name)
            ours = [dict(Reader(url, each, chosen).asked(name)) for each in earlier]
            theirs = dict(Reader(engine.query, span, chosen).asked(name))
        except AssertionError as error:  # a refused query, or a variable without a value
            yield f"{engine.name}: {name}: {error}"
            continue
        exprs = {
            f"{panel['id']} {panel['title']} / {target['refId']}": target["expr"]
            for panel in panels(name)
            for target in panel["targets"]
        }
        for query, expr in exprs.items():
            moments, found = [_latest(each[query]) for each in ours], _latest(theirs[query])
            if _CHOSEN.search(expr) and len(found) == len(moments[1]):
                found = {each: value for each, value in found.items() if any(each in of for of in moments)}
                moments = [{each: of[each] for each in of if each in found} for of in moments]
            errors = list(_different(moments, found, TOLERANCE))
            seen += 1
            equal += not errors
            if errors:
                yield f"{engine.name}: {name} / {query}: {'; '.join(errors[:2])}"
    _say(f"{engine.name}: {equal} of {seen} queries of dashboards are equal")


def _different(ours: Sequence[Mapping[Any, float]], theirs: Mapping[Any, float], tolerance: float) -> Iterator[str]:
    """Yield how an answer differs from those of some moments: a value lies between theirs.

    A fiftieth of the largest value is left open: six seconds of work in the five minutes of a rate.
    """
    always, ever = set(ours[0]).intersection(*ours), set().union(*ours)
    if missing := always - theirs.keys() | theirs.keys() - ever:
        yield f"{len(missing)} of {len(ever)} series only in one, as {dict(min(missing, key=sorted))}"
    most = max((abs(value) for each in ours for value in each.values()), default=0.0)
    for labels in ever & theirs.keys():
        values = [each[labels] for each in ours if labels in each]
        slack = tolerance * max(*map(abs, values), most / 10)
        if not min(values) - slack <= theirs[labels] <= max(values) + slack:
            yield f"{theirs[labels]:g} for {min(values):g} to {max(values):g} of {dict(labels)}"
            return


def _values(url: str, expr: str, at: float) -> Mapping[Any, float]:
    return _latest(ask_at(url, expr, at))


def _latest(rows: Sequence[Mapping[str, Any]]) -> Mapping[Any, float]:
    """Return the last value of each series by its labels."""
    return {
        frozenset((name, value) for name, value in row["metric"].items() if name not in _REPLICAS): float(
            row["value"][1] if "value" in row else row["values"][-1][1]
        )
        for row in rows
    }


def _total(values: Mapping[Any, float]) -> float:
    return sum(values.values())


def _wait(minutes: int) -> None:
    for left in range(minutes, 0, -1):
        _say(f"  {left} min")
        time.sleep(60)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=len(SPECS), help=f"at least {len(SPECS)}: one of each kind")
    parser.add_argument("--minutes", type=int, default=7, help="before the engines are stopped")
    parser.add_argument("--down", type=int, default=5, help="minutes without the engines")
    parser.add_argument("--settle", type=int, default=13, help="minutes after it, until rates of five are whole again")
    options = parser.parse_args()
    if options.nodes < len(SPECS):
        parser.error(f"--nodes: expected {len(SPECS)} or more")
    if shutil.which("go") is None and not (FOLDER / "thanos").exists():
        _say("test-engines: go is missing (1.26 or newer)")
        return 2
    build()
    wrong = play(options.nodes, options.minutes, options.down, options.settle)
    _say("".join(f"WRONG {each}\n" for each in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
