"""A family says what it is in one place, and one that is declared wrong is refused."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.core.families import (
    DEVICE,
    EMPTY,
    NODE,
    Columns,
    Family,
    Sample,
    Stability,
    Type,
    Unit,
    by,
    counter,
    counters,
    experimental,
    gauge,
    gauges,
    in_columns,
    info,
)

HELP = "What it is."


def _family(**other: Any) -> Family[None]:
    given = {
        "name": "gpu_x_joules",
        "help": HELP,
        "type": Type.GAUGE,
        "unit": Unit.JOULES,
        "samples": lambda _: (),
        "labels": ("state",),
    }
    return Family(**{**given, **other})


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"name": "x_joules"}, "metric 'x_joules' is not gpu_snake_case"),
        ({"name": "gpu_X_joules"}, "metric 'gpu_X_joules' is not gpu_snake_case"),
        ({"name": "gpu_x__joules"}, "metric 'gpu_x__joules' is not gpu_snake_case"),
        ({"type": Type.COUNTER}, "metric 'gpu_x_joules' is a counter and must end in _total"),
        ({"name": "gpu_x_joules_total"}, "metric 'gpu_x_joules_total' is a gauge and must not end in _total"),
        ({"unit": Unit.WATTS}, "metric 'gpu_x_joules' must name watts"),
        ({"help": "no sentence"}, "metric 'gpu_x_joules' needs help that is a sentence"),
        ({"labels": ("State",)}, "metric 'gpu_x_joules' has a malformed label"),
        ({"labels": ("state", "uuid")}, "metric 'gpu_x_joules' names a label twice"),
        ({"labels": ("instance",)}, "metric 'gpu_x_joules' has a label that belongs to Prometheus"),
    ],
)
def test_family_that_is_declared_wrong_is_refused(wrong: dict[str, Any], why: str) -> None:
    _family()
    with pytest.raises(ValueError, match=f"^{why}$"):
        _family(**wrong)


@pytest.mark.parametrize(
    ("made", "kind", "unit", "labels", "prefix"),
    [
        (gauge("gpu_a_watts", HELP, Unit.WATTS, float), Type.GAUGE, Unit.WATTS, (), DEVICE),
        (gauge("gpu_a_watts", HELP, Unit.WATTS, float, NODE), Type.GAUGE, Unit.WATTS, (), NODE),
        (counter("gpu_a_joules_total", HELP, Unit.JOULES, float, NODE), Type.COUNTER, Unit.JOULES, (), NODE),
        (gauges("gpu_a_watts", HELP, Unit.WATTS, tuple, ("b",), NODE), Type.GAUGE, Unit.WATTS, ("b",), NODE),
        (
            counters("gpu_a_joules_total", HELP, Unit.JOULES, tuple, ("b",), NODE),
            Type.COUNTER,
            Unit.JOULES,
            ("b",),
            NODE,
        ),
        (info("gpu_a_info", HELP, tuple, ("b",), NODE), Type.GAUGE, Unit.NONE, ("b",), NODE),
    ],
    ids=["gauge", "node's gauge", "counter", "gauges", "counters", "info"],
)
def test_family_is_what_it_was_declared_as(
    made: Family[Any], kind: Type, unit: Unit, labels: tuple[str, ...], prefix: tuple[str, ...]
) -> None:
    told = (made.type, made.unit, made.labels, made.prefix, made.help, made.stability)

    assert told == (kind, unit, labels, prefix, HELP, Stability.STABLE)
    assert made.all_labels == (*prefix, *labels)
    assert experimental(made).stability is Stability.EXPERIMENTAL
    assert experimental(made).name == made.name


@pytest.mark.parametrize("declare", [gauge, counter], ids=["gauge", "counter"])
def test_family_of_one_number_has_a_sample_where_there_is_one(declare: Any) -> None:
    name = "gpu_a_watts" if declare is gauge else "gpu_a_watts_total"
    made: Family[dict[str, float]] = declare(name, HELP, Unit.WATTS, lambda reading: reading.get("a"))

    assert made.columns({"a": 3.0}) == Columns(((),), (3.0,))
    assert made.columns({}) == EMPTY
    assert tuple(made.samples({"a": 3.0})) == (Sample(3.0),)
    assert tuple(made.samples({})) == ()
    assert dict(made.by_labels({"a": 3.0})) == {(): 3.0}


def test_what_is_not_known_has_no_sample() -> None:
    made: Family[None] = gauges(
        "gpu_a_watts", HELP, Unit.WATTS, by(lambda _: (("x", 1.0), ("y", None), (3, 0.0))), ("kind",)
    )

    assert made.collect(None) == (Sample(1.0, ("x",)), Sample(0.0, ("3",)))
    assert in_columns([]) is EMPTY


def test_samples_that_do_not_fit_the_labels_are_refused() -> None:
    made: Family[tuple[Sample, ...]] = gauges("gpu_a_watts", HELP, Unit.WATTS, tuple, ("kind",))

    with pytest.raises(ValueError, match=r"^metric 'gpu_a_watts' has samples that do not fit \('kind',\)$"):
        made.columns((Sample(1.0, ("x",)), Sample(1.0, ("x", "y"))))


def test_columns_of_unequal_length_have_no_values_by_labels() -> None:
    made: Family[Columns] = gauges("gpu_a_watts", HELP, Unit.WATTS, lambda columns: columns, ("kind",))

    assert made.by_labels(Columns((("x",), ("y",)), (1.0, 2.0))) == {("x",): 1.0, ("y",): 2.0}
    with pytest.raises(ValueError, match="zip"):
        made.by_labels(Columns((("x",),), (1.0, 2.0)))
