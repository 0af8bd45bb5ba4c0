"""The runbooks as HTML, for the exporter to serve. `python -m deploy.prometheus.pages` writes them for a checkout."""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Iterable
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from exporter import REPOSITORY

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "docs/runbooks"
SERVED = "exporter/web/runbooks.json"
_MEANING = re.compile(r"^\*\*Meaning\*\*: (.+)$", re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)


def write(file: Path, root: Path = ROOT) -> Path:
    """Write the JSON that the exporter reads, from the runbooks below `root`. Readers never see a part of it."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted((root / FOLDER).glob("*.md"))}
    pages = {name: {**_head(text), "html": html(text, texts)} for name, text in texts.items()}
    part = file.with_name(f"{file.name}.{os.getpid()}")
    part.write_text(json.dumps(pages, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return part.replace(file)


def _head(text: str) -> dict[str, str]:
    """Return name and meaning of the page's alert. Raises ValueError for a page that lacks the generated part."""
    title, meaning = text.splitlines()[0], _MEANING.search(text)
    if meaning is None:
        raise ValueError(f"{title}: no line **Meaning**: run make rules")
    return {"title": title.removeprefix("# "), "meaning": meaning[1]}


def html(text: str, names: Iterable[str]) -> str:
    """Return a runbook as HTML. Links to `names` stay among the served pages, others lead to the repository."""
    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = markdown.parse(_COMMENT.sub("", text))
    for link in _links(tokens):
        link.attrSet("href", _target(str(link.attrGet("href")), frozenset(names)))
    made: str = markdown.renderer.render(tokens, markdown.options, {})
    return made


def _links(tokens: Iterable[Token]) -> Iterable[Token]:
    return (each for token in tokens for each in token.children or () if each.type == "link_open")


def _target(href: str, names: frozenset[str]) -> str:
    if "://" in href:
        return href
    if (name := href.removesuffix(".md")) in names:
        return name
    return f"{REPOSITORY}/blob/main/{posixpath.normpath(posixpath.join(FOLDER, href))}"


if __name__ == "__main__":
    write(ROOT / SERVED)
