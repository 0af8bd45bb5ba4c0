"""Words of the code: docstrings of public names, and the helps of metrics, options, thresholds and rules."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deploy.prometheus.recordings import GROUPS as RECORDINGS
from deploy.prometheus.render import ALERTS
from exporter.config.option import options_of
from exporter.daemon.config import DaemonConfig
from exporter.ledger.states import TABLE, THRESHOLDS
from exporter.sampling.families import families, groups
from exporter.tools.check.options import CheckConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("exporter", "deploy", "dashboards", "helm")

BEGINNING = re.compile(
    "(About|After|Against|Among|And|As|At|Before|Between|But|By|For|From|How|If|In|Into|Like|Of|On|Out|Over|Per|Since|"
    "Than|That|Through|To|Under|Until|What|When|Where|Whether|Which|While|Whom?|Whose|Why|With|Within|Without)"
)
"""No docstring begins so, but with a verb or a noun."""
PRIVATE = re.compile(
    r"\b(held|holds?|holding|shares?|pass|passes|looks?|looked|marks?|marked|mended|cured|tells?|told|says?)\b",
    re.IGNORECASE,
)
"""Words of earlier texts; the field says allocated, fraction, cycle, read, target, fixed, reports."""


def first_words(source: str) -> Iterator[tuple[str, str]]:
    """Yield the line and the first word of each docstring: of modules, classes, functions, and below names."""
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", ())
        for each in body if isinstance(body, list) else ():
            if (
                isinstance(each, ast.Expr)
                and isinstance(each.value, ast.Constant)
                and isinstance(each.value.value, str)
            ):
                yield f"line {each.lineno}", each.value.value.split(maxsplit=1)[0].strip(",.:;")


def helps() -> Mapping[str, str]:
    """Return the texts of what users see and set, by its name."""
    recordings = (rule for group in RECORDINGS for rule in group.rules)
    configured = (option for config in (DaemonConfig, CheckConfig) for option in options_of(config))
    return {
        **{family.name: family.help for family in families()},
        **{f"group {group.name}": group.help for group in groups()},
        **{option.name: option.help for option in configured},
        **{threshold.name: threshold.help for threshold in THRESHOLDS},
        **{f"state {state.name}": f"{state.title} {state.meaning}" for state in TABLE},
        **{recording.record: recording.help for recording in recordings},
        **{f"{alert.name} {param.name}": param.help for alert in ALERTS for param in alert.params},
    }


@pytest.mark.parametrize("word", ["Of", "With", "Whether"])
def test_docstring_that_begins_with_a_preposition_is_found(word: str) -> None:
    assert list(first_words(f'def _name() -> int:\n    """{word} the GPUs."""\n')) == [("line 2", word)]
    assert list(first_words(f'_LIMIT = 1\n"""{word} the GPUs."""\n')) == [("line 2", word)]
    assert BEGINNING.fullmatch(word)


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    files = (path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    wrong = [
        f"{file}: {name}: {word}"
        for file in files
        for name, word in first_words((ROOT / file).read_text())
        if BEGINNING.fullmatch(word)
    ]

    assert wrong == []


def test_helps_use_the_words_of_the_field() -> None:
    assert {name: text for name, text in helps().items() if PRIVATE.search(text)} == {}


def test_glossary_names_classes_and_folders_that_exist() -> None:
    rows = re.findall(r"^\|.*\| (`.*`) \|$", (ROOT / "docs/dev/glossary.md").read_text(), re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    code = "\n".join(path.read_text() for path in (ROOT / "exporter").rglob("*.py"))
    metrics = {family.name for family in families()}

    assert rows
    assert [
        name
        for name in names
        if not (ROOT / name).is_dir() and name not in metrics and not re.search(rf"^class {name}\b", code, re.MULTILINE)
    ] == []
