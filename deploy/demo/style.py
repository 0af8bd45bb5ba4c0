"""Looks of the demo's pages, and the frame around each of them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from exporter.ledger.palette import BAD, WARN, page_colours

STYLE = (
    page_colours()
    + """\
*{box-sizing:border-box}body{margin:0 auto;max-width:1500px;padding:1rem;font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
a{color:var(--link)}h1{font-size:1.5rem;margin:.2rem 0}h2{font-size:1.1rem;margin:1.2rem 0 .4rem}p{margin:.3rem 0}.dim{color:var(--dim)}
nav{display:flex;flex-wrap:wrap;gap:.2rem 1rem;font-size:.9rem;border-bottom:1px solid var(--line);padding-bottom:.5rem}
.note{background:var(--card);border-left:4px solid var(--link);padding:.4rem .8rem;margin:.6rem 0}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.8rem;margin:.8rem 0}.figures div{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.6rem 1rem}.figures b{display:block;font-size:1.6rem;font-variant-numeric:tabular-nums}
.bar{display:flex;height:18px;border-radius:4px;overflow:hidden;background:var(--line)}.bar i{display:block}
.keys{display:flex;flex-wrap:wrap;gap:.2rem 1rem;font-size:.8rem}.keys i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.35em}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,300px),1fr));align-items:start;gap:.8rem}.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.7rem .9rem;min-width:0}.card h3{margin:0;font-size:1rem}
.card table{width:100%;border-collapse:collapse;font-size:.85rem;margin:.4rem 0}.card td+td{white-space:nowrap;width:1%}.card.wide td+td{white-space:normal;width:auto}.card td:first-child{overflow-wrap:anywhere}.card td{padding:.15rem .3rem;border-top:1px solid var(--line);vertical-align:top}
.card tr:first-child>*{border-top:0}.card .why td{border-top:0;padding-top:0}.card th{text-align:left;color:var(--dim);font-weight:600;padding:.15rem .3rem}
.wide{overflow-x:auto}.fault{color:var(--bad);font-size:.85rem;font-weight:600}
.message{background:var(--card);border:1px solid var(--line);border-left:4px solid var(--line);border-radius:6px;padding:.5rem .8rem;margin:.5rem 0}.message.mail,.message.chat{border-left-color:var(--link)}
.message pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.3rem 0 0;font:inherit;font-size:.9rem}pre.page{white-space:pre-wrap;overflow-wrap:anywhere}code{overflow-wrap:anywhere}
"""
    + f".message.page{{border-left-color:{BAD}}}.message.ticket{{border-left-color:{WARN}}}\n"
)


def frame(title: str, links: Sequence[tuple[str, str]], body: str, *, style: str = "", refresh: int = 0) -> str:
    """A whole page; `refresh` seconds after which it is loaded anew."""
    again = f'<meta http-equiv="refresh" content="{refresh}">' if refresh else ""
    menu = "".join(f'<a href="{escape(url)}">{escape(name)}</a>' for name, url in links)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">{again}'
        f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{STYLE}{style}</style></head>'
        f"<body><nav>{menu}</nav><h1>{escape(title)}</h1>{body}</body></html>"
    )
