"""What can be said of a PromQL expression without running it: the labels of its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import promql_parser as promql

from exporter.tools.report.definitions import REPLICAS
from tests.contract.dashboards.vocabulary import METRICS, TARGET

_SET_OPERATORS = {"and", "unless"}
_KEEPS_SERIES = {"topk", "bottomk"}
_OF_REPLICAS = frozenset(REPLICAS.split(", "))
"""What series of several replicas have beside the labels of their metric: it is only ever dropped."""
_OVER_RANGE = {"rate", "irate", "increase"}


class WrongLabelError(Exception):
    """A label is used that the expression cannot have."""


def children(node: Any) -> Iterator[Any]:
    for name in ("lhs", "rhs", "expr", "param", "vector_selector"):
        child = getattr(node, name, None)
        if isinstance(child, promql.Expr):
            yield child
    yield from getattr(node, "args", None) or ()


def walk(node: Any) -> Iterator[Any]:
    yield node
    for child in children(node):
        yield from walk(child)


def selectors(node: Any) -> list[Any]:
    return [each for each in walk(node) if isinstance(each, promql.VectorSelector)]


def matchers(selector: Any) -> dict[str, str]:
    return {each.name: each.value for each in selector.matchers.matchers}


def labels(node: Any) -> frozenset[str]:
    """The labels the result may have. Raises WrongLabelError where one is asked for that is not there."""
    of = _LABELS.get(type(node))
    return of(node) if of else frozenset()


def _of_selector(node: Any) -> frozenset[str]:
    known = METRICS[node.name].labels | TARGET
    _need(matchers(node), known, f"matcher of {node.name}")
    return known


def _need(wanted: Any, known: frozenset[str], where: str) -> None:
    missing = set(wanted) - known
    if missing:
        raise WrongLabelError(f"{where}: {', '.join(sorted(missing))} not among {', '.join(sorted(known))}")


def _of_aggregate(node: Any) -> frozenset[str]:
    inner = labels(node.expr)
    named = frozenset(node.modifier.labels) if node.modifier else frozenset()
    without = node.modifier and node.modifier.type == promql.AggModifierType.Without
    _need(named - _OF_REPLICAS if without else named, inner, str(node.op))
    if str(node.op) in _KEEPS_SERIES:
        return inner
    if str(node.op) == "count_values":
        named |= {node.param.val}
    return inner - named if without else named


def _of_call(node: Any) -> frozenset[str]:
    inner: frozenset[str] = frozenset().union(*(labels(each) for each in node.args))
    if node.func.name == "label_replace":
        source = node.args[3].val
        _need({source} - {""}, inner, "label_replace")
        return inner | {node.args[1].val}
    return inner - {"le"} if node.func.name == "histogram_quantile" else inner


def _of_binary(node: Any) -> frozenset[str]:
    left, right = labels(node.lhs), labels(node.rhs)
    operator, modifier = str(node.op), node.modifier
    matching = modifier.matching if modifier else None
    on = matching is not None and matching.type == promql.LabelModifierType.Include
    if on:
        _need(matching.labels, left, f"on, left of {operator}")
        _need(matching.labels, right, f"on, right of {operator}")
    if operator == "or":
        return left | right
    if operator in _SET_OPERATORS or not right:
        return left
    if not left and matching is None:
        return right
    if modifier and modifier.group_labels is not None:
        many, one = (left, right) if modifier.card == promql.VectorMatchCardinality.ManyToOne else (right, left)
        _need(modifier.group_labels, one, "group")
        return many | frozenset(modifier.group_labels)
    return frozenset(matching.labels) if on and matching is not None else left & right


_LABELS: dict[type[Any], Callable[[Any], frozenset[str]]] = {
    promql.VectorSelector: _of_selector,
    promql.MatrixSelector: lambda node: labels(node.vector_selector),
    promql.AggregateExpr: _of_aggregate,
    promql.BinaryExpr: _of_binary,
    promql.Call: _of_call,
    promql.ParenExpr: lambda node: labels(node.expr),
    promql.UnaryExpr: lambda node: labels(node.expr),
    promql.SubqueryExpr: lambda node: labels(node.expr),
}


def ranged(node: Any) -> Iterator[tuple[str, str]]:
    """(function, metric) of every function that is only right on counters."""
    for each in walk(node):
        if isinstance(each, promql.Call) and each.func.name in _OVER_RANGE:
            yield each.func.name, selectors(each)[0].name
