"""Lines of the text format: a family's header, and the line of each of its series."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from exporter.exposition.number import go_number
from exporter.metrics.family import AnyFamily, Type, Values

_SUFFIX = {Type.COUNTER: "_total", Type.INFO: "_info", Type.GAUGE: ""}


def header(family: AnyFamily, *, openmetrics: bool) -> str:
    return "".join(_header(family, openmetrics=openmetrics))


def _header(family: AnyFamily, *, openmetrics: bool) -> Iterator[str]:
    stem = family.name.removesuffix(_SUFFIX[family.type])
    name = stem if openmetrics else family.name
    kind = "gauge" if family.type is Type.INFO and not openmetrics else family.type.value
    help_ = family.help.replace("\\", r"\\").replace("\n", r"\n")
    yield f"# HELP {name} {_quoted(family.help) if openmetrics else help_}\n"
    yield f"# TYPE {name} {kind}\n"
    if openmetrics and family.unit.value:
        yield f"# UNIT {name} {family.unit.value}\n"


def with_value(line: bytes, value: float) -> bytes:
    """A series' line, without its end, with another value."""
    return line[: line.rindex(b" ") + 1] + go_number(value).encode()


def writer(family: AnyFamily) -> Callable[[Values, float], str]:
    """What writes a series' line, without its end, from the values of all its labels, which it sorts, and its value."""
    names = family.all_labels
    if not names:
        return lambda _, value: f"{family.name} {go_number(value)}"
    places = sorted(range(len(names)), key=names.__getitem__)
    pairs = ",".join([f'{names[place]}="%s"' for place in places])
    form = f"{family.name}{{{pairs}}} %s"

    def line(labels: Values, value: float) -> str:
        said: Sequence[str] = labels
        if not _plain("".join(labels)):
            said = [_quoted(each) for each in labels]
        return form % (*[said[place] for place in places], go_number(value))

    return line


def _plain(text: str) -> bool:
    return "\\" not in text and '"' not in text and "\n" not in text


def _quoted(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
