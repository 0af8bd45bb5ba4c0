"""One HTML page with its style inside: nothing is fetched, and mail programs show it too."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from exporter.ledger.palette import LIGHT
from exporter.tools.report.document import Bars, Block, Document, Facts, Heading, Steps, Table, printable

# Mail programs know no CSS variables: the colours stand in each rule.
_STYLE = f"""\
body{{font:15px/1.5 system-ui,sans-serif;max-width:84rem;margin:2rem auto;padding:0 1rem}}
p,ol{{max-width:60rem}}
body{{color:{LIGHT.ink};background:{LIGHT.card}}}
.wide{{overflow-x:auto}}h1{{font-size:1.4rem}}h2{{font-size:1.1rem;margin-top:2rem}}
table{{border-collapse:collapse;width:100%}}
th,td{{text-align:left;padding:.25rem .6rem;border-bottom:1px solid {LIGHT.line}}}
th{{font-weight:600;color:{LIGHT.dim}}}td.n,th.n{{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}}
td.b{{width:45%}}.b div{{height:.8rem;border-radius:2px}}li{{margin:.4rem 0}}
"""


def render(document: Document) -> str:
    title = _text(document.title)
    body = "\n".join(part for block in document.blocks for part in _block(block))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><title>{title}</title>\n'
        f"<style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n{body}\n</body></html>\n"
    )


def _text(text: str) -> str:
    return html.escape(printable(text))


def _block(block: Block) -> Iterable[str]:
    if isinstance(block, Heading):
        return [f"<h2>{_text(block.text)}</h2>"]
    if isinstance(block, Facts):
        rows = (f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in block.rows)
        return ["<table>", *rows, "</table>"]
    if isinstance(block, Bars):
        return _bars(block)
    if isinstance(block, Table):
        return _table(block.head, block.rows)
    if isinstance(block, Steps):
        items = (f"<li><strong>{_text(title)}</strong><br>{_text(text)}</li>" for title, text in block.rows)
        return ["<ol>", *items, "</ol>"]
    return [f"<p>{_text(block.text)}</p>"]


def _bars(bars: Bars) -> Iterable[str]:
    yield "<table>"
    for bar in bars.rows:
        drawn = f'<div style="width:{bar.share * 100:.1f}%;background:{bar.colour}"></div>'
        yield (
            f'<tr><td>{_text(bar.name)}</td><td class="n">{_text(bar.amount)}</td>'
            f'<td class="n">{bar.share * 100:.0f} %</td><td class="b">{drawn}</td></tr>'
        )
    yield "</table>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    kinds = [' class="n"' if name.startswith(">") else "" for name in head]
    yield '<div class="wide"><table><tr>' + "".join(
        f"<th{kind}>{_text(name.removeprefix('>'))}</th>" for name, kind in zip(head, kinds, strict=True)
    )
    for row in rows:
        yield "<tr>" + "".join(f"<td{kind}>{_text(cell)}</td>" for cell, kind in zip(row, kinds, strict=True))
    yield "</table></div>"
