"""The runbooks as HTML, for the exporter to serve: `python -m deploy.prometheus.generate` writes them."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Mapping

from markdown_it import MarkdownIt
from markdown_it.token import Token

from deploy.prometheus.declaration import Alert
from exporter import REPOSITORY

FOLDER = "docs/runbooks"
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)


def packaged(alerts: Iterable[Alert], texts: Mapping[str, str]) -> str:
    """Return the JSON that the exporter reads; `texts` is the Markdown of each runbook by its name."""
    pages = {
        alert.runbook: {"title": alert.name, "meaning": alert.meaning, "html": html(texts[alert.runbook], texts)}
        for alert in sorted(alerts, key=lambda alert: alert.runbook)
    }
    return json.dumps(pages, indent=1, ensure_ascii=False) + "\n"


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
