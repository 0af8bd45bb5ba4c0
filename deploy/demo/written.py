"""A page of the documentation as it is written, its headings where links lead to."""

from __future__ import annotations

import re
from html import escape, unescape

_HEADING = re.compile(r"^#{1,6} +(.+)$", re.MULTILINE)


def written(text: str) -> str:
    """HTML of Markdown that is shown as it is; each heading has the name that it has where Markdown is drawn."""
    return f'<pre class="page">{_HEADING.sub(_named, escape(text))}</pre>'


def _named(heading: re.Match[str]) -> str:
    kept = re.sub(r"[^\w\- ]", "", unescape(heading[1]).lower())
    return f'<span id="{escape(kept.strip().replace(" ", "-"))}">{heading[0]}</span>'
