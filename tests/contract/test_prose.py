"""Prose of the pages: words of each page, length of sentences, words of the field, tables that GitHub keeps whole."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

MAX_WORDS = {
    "README.md": 600,
    "CHANGELOG.md": 300,
    "docs/index.md": 200,
    "docs/tutorials/demo.md": 500,
    "docs/tutorials/first-node.md": 500,
    "docs/how-to/kubernetes.md": 600,
    "docs/how-to/slurm.md": 700,
    "docs/how-to/prometheus-grafana.md": 500,
    "docs/how-to/report-progress.md": 600,
    "docs/how-to/change-thresholds.md": 300,
    "docs/how-to/tls.md": 300,
    "docs/explanation/states.md": 1500,
    "docs/explanation/owners.md": 900,
    "docs/explanation/security.md": 500,
    "docs/explanation/cost.md": 400,
}
FOLDER_WORDS = {"how-to": 400, "kubernetes": 150, "slurm-sites": 150}
MEAN_SENTENCE_WORDS = 15.0
LONG_SENTENCE_WORDS = 25
LONG_SENTENCES = 0.05  # of a page's sentences

# Private words of earlier pages, and what the field says instead.
BANNED = {
    "told": "reported",
    "tells?": "reports",
    "said": "reported",
    "says?": "reports, states",
    "mend(ed|ing)?": "fixed",
    "nobody": "no user, no alert",
    "whoever": "the team that",
    "held": "allocated",
    "holds": "has allocated",
    "cured": "cleared",
    "whose it is": "owner",
    "is taken for": "is classified as",
    "MFU at most": "MFU bound",
}
BANNED_IN_RUNBOOKS = {
    "holder": "owner",
    "shares?": "fraction, or several use one GPU",
    "pass": "sampling cycle",
    "looks at it": "counts",
}


def _pages() -> list[Path]:
    folders = [*sorted((ROOT / "deploy").glob("*/README.md")), ROOT / "helm/gpu-exporter/README.md"]
    return [*sorted(ROOT.glob("*.md")), *folders, *sorted(DOCS.rglob("*.md"))]


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _visible(text: str) -> str:
    """Return what a page shows beside code: without fenced and folded blocks, comments and the targets of links."""
    text = re.sub(r"^---\n.*?\n---\n", "", text, flags=re.DOTALL)
    text = re.sub(r"^( *)(```+|~~~+).*?^ *\2 *$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<details>.*?</details>|<!--.*?-->|<[^>]+>", "", text, flags=re.DOTALL)
    return re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)


def _prose(text: str) -> str:
    """Return the sentences of a page: what it shows, without tables and headings."""
    return "\n".join(line for line in _visible(text).splitlines() if not line.lstrip().startswith(("#", "|")))


def _words(text: str) -> int:
    return sum(any(map(str.isalnum, word)) for word in text.split())


def _sentences(text: str) -> Iterator[int]:
    """Words of each sentence; a list item or a paragraph ends one."""
    for block in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.)\s", _prose(text)):
        flat = re.sub(r"`[^`]*`", "code", " ".join(block.split()))
        for sentence in re.split(r"(?<=[.!?:])\s+", flat):
            if words := len(re.findall(r"[A-Za-z0-9][\w'/.-]*", sentence)):
                yield words


def _max_words(page: Path) -> int | None:
    return MAX_WORDS.get(_name(page), FOLDER_WORDS.get(page.parent.name))


def _cells(row: str) -> int:
    """Cells as GitHub cuts them: at each bar without a backslash, inside code too."""
    return len(re.split(r"(?<!\\)\|", row.strip().strip("|")))


@pytest.mark.parametrize("page", [page for page in _pages() if _max_words(page)], ids=_name)
def test_page_stays_within_its_words(page: Path) -> None:
    limit = _max_words(page)
    assert limit is not None
    assert _words(_visible(page.read_text())) <= limit


RUNBOOKS = sorted((DOCS / "runbooks").glob("*.md"))


@pytest.mark.parametrize("page", RUNBOOKS, ids=_name)
def test_runbook_comes_to_its_query_within_150_words(page: Path) -> None:
    text = page.read_text()
    before, query, _ = text.partition("<details>")

    assert query
    assert _words(_visible(before)) <= 150
    assert _words(_prose(text)) <= 220


JOBS = (DOCS / "dev/testing.md").read_text().partition("## Words of a job")[2]


@pytest.mark.parametrize("row", re.findall(r"^\| .*\d \|$", JOBS, re.MULTILINE))
def test_job_is_done_within_700_words(row: str) -> None:
    """All words of its pages count, code too; of a runbook, those up to its query."""
    pages = [DOCS / "dev" / target for target in re.findall(r"\]\(([^)#]+)", row)]
    words = sum(len(page.read_text().partition("<details>")[0].split()) for page in pages)

    assert words <= int(row.rstrip("| ").rpartition(" ")[2]) <= 700


@pytest.mark.parametrize("page", _pages(), ids=_name)
def test_sentences_are_short(page: Path) -> None:
    lengths = list(_sentences(page.read_text()))

    assert mean(lengths) <= MEAN_SENTENCE_WORDS
    assert ";" not in re.sub(r"`[^`]*`", "", _prose(page.read_text()))
    assert sum(length > LONG_SENTENCE_WORDS for length in lengths) <= max(1, LONG_SENTENCES * len(lengths))


@pytest.mark.parametrize("page", _pages(), ids=_name)
def test_pages_use_the_words_of_the_field(page: Path) -> None:
    prose = re.sub(r"`[^`]*`", "", _prose(page.read_text()))
    banned = BANNED | (BANNED_IN_RUNBOOKS if page.parent.name == "runbooks" else {})

    assert {word: field for word, field in banned.items() if re.search(rf"\b{word}\b", prose, re.IGNORECASE)} == {}


@pytest.mark.parametrize("page", _pages(), ids=_name)
def test_rows_have_the_cells_of_their_table(page: Path) -> None:
    wrong, header = [], 0
    text = re.sub(r"^( *)(```+).*?^ *\2 *$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for line in text.splitlines():
        if not line.lstrip().startswith("|"):
            header = 0
            continue
        header = header or _cells(line)
        wrong += [line] if _cells(line) != header else []

    assert wrong == []


def test_a_bare_bar_inside_code_is_found() -> None:
    assert _cells("| `a|b` | c |") == 3
    assert _cells(r"| `a\|b` | c |") == 2


HOW_TOS = sorted((DOCS / "how-to").glob("*.md"))
SEEN = re.compile(
    r"\b(you see|shows?|prints?|printed|lists|appears?|rises|becomes|returns?|sees|is drained|equal|is written|result|"
    r"up again|stays|follows|receives)\b|```console",
    re.IGNORECASE,
)
"""Words that introduce what a step leads to."""


@pytest.mark.parametrize("page", HOW_TOS, ids=_name)
def test_how_to_has_its_reader_needs_results_and_next_step(page: Path) -> None:
    text = page.read_text()
    head, *sections = re.split(r"^##+ ", text, flags=re.MULTILINE)
    steps = {section.splitlines()[0]: section for section in sections if re.match(r"\d+\. ", section)}

    assert re.search(r"^For ((cluster |Slurm )?administrators|owners|people)\b", head, re.MULTILINE)
    assert "## Before you start\n" in text
    assert sections[-1].startswith("Next\n")
    assert [title for title, step in steps.items() if not SEEN.search(step)] == []
