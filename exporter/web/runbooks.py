"""The runbooks as pages of the exporter, for on-call without the internet. The build of the wheel renders them."""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Mapping

from exporter.core.printable import html_text
from exporter.web.status import STYLE

_STYLE = """\
body{max-width:56rem}pre{overflow-x:auto;padding:.6rem;background:var(--card)}code{overflow-wrap:anywhere}
pre code,td:first-child code{overflow-wrap:normal}td{white-space:normal;vertical-align:top}summary{cursor:pointer}
"""


def page(name: str) -> str:
    """Return the runbook called `name`, the list of all for an empty name, and nothing for an unknown one."""
    found = pages()
    if not name:
        links = "".join(f'<li><a href="{each}">{html_text(page["title"])}</a>: {html_text(page["meaning"])}</li>'
                        for each, page in found.items())  # fmt: skip
        return _html_document("Runbooks", f"<h1>Runbooks</h1><ul>{links}</ul>")
    return _html_document(found[name]["title"], found[name]["html"]) if name in found else ""


def pages() -> Mapping[str, Mapping[str, str]]:
    """Read the pages at each request: they are rare, and the file is larger than all else that the server keeps."""
    try:
        content: Mapping[str, Mapping[str, str]] = json.loads(pkgutil.get_data(__name__, "runbooks.json") or b"{}")
    except FileNotFoundError:  # in a checkout, before `make venv`
        return {}
    return content


def _html_document(title: str, body: str) -> str:
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<link rel="icon" href="data:,"><title>{html_text(title)}</title><style>{STYLE}{_STYLE}</style></head><body>
<header><p class="dim"><a href="../">status of this node</a> · <a href="./">all runbooks</a></p></header>
{body}
</body></html>
"""
