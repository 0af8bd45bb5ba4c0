"""A report in each format that is no terminal's: HTML, Markdown, JSON, and one line for Slurm's AdminComment."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from exporter.core.printable import html_text, printable, printable_json
from exporter.ledger.palette import LIGHT
from exporter.tools.report import words
from exporter.tools.report.definitions import allocated, lost, utilization
from exporter.tools.report.document import Bars, Block, Document, Facts, Heading, Steps, Table
from exporter.tools.report.layout import covers, model_flops
from exporter.tools.report.model import Digest, JobReport, worst

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


def render_html(document: Document) -> str:
    title = html_text(document.title)
    body = "\n".join(part for block in document.blocks for part in _html_block(block))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><title>{title}</title>\n'
        f"<style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n{body}\n</body></html>\n"
    )


def _html_block(block: Block) -> Iterable[str]:
    if isinstance(block, Heading):
        return [f"<h2>{html_text(block.text)}</h2>"]
    if isinstance(block, Facts):
        rows = (f"<tr><th>{html_text(name)}</th><td>{html_text(value)}</td></tr>" for name, value in block.rows)
        return ["<table>", *rows, "</table>"]
    if isinstance(block, Bars):
        return _html_bars(block)
    if isinstance(block, Table):
        return _html_table(block.head, block.rows)
    if isinstance(block, Steps):
        items = (f"<li><strong>{html_text(title)}</strong><br>{html_text(text)}</li>" for title, text in block.rows)
        return ["<ol>", *items, "</ol>"]
    return [f"<p>{html_text(block.text)}</p>"]


def _html_bars(bars: Bars) -> Iterable[str]:
    yield "<table>"
    for bar in bars.rows:
        drawn = f'<div style="width:{bar.share * 100:.1f}%;background:{bar.colour}"></div>'
        yield (
            f'<tr><td>{html_text(bar.name)}</td><td class="n">{html_text(bar.amount)}</td>'
            f'<td class="n">{bar.share * 100:.0f} %</td><td class="b">{drawn}</td></tr>'
        )
    yield "</table>"


def _html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    kinds = [' class="n"' if name.startswith(">") else "" for name in head]
    yield '<div class="wide"><table><tr>' + "".join(
        f"<th{kind}>{html_text(name.removeprefix('>'))}</th>" for name, kind in zip(head, kinds, strict=True)
    )
    for row in rows:
        yield "<tr>" + "".join(f"<td{kind}>{html_text(cell)}</td>" for cell, kind in zip(row, kinds, strict=True))
    yield "</table></div>"


_BAR = 20
_SPECIAL = re.compile(r"([\\`*_\[\]<>|&~])")


def render_markdown(document: Document) -> str:
    lines = [f"# {_markdown_text(document.title)}", ""]
    for block in document.blocks:
        lines += [*_markdown_block(block), ""]
    return "\n".join(lines).rstrip() + "\n"


def _markdown_text(text: str) -> str:
    """A name may hold anything: nothing in it is markup."""
    return _SPECIAL.sub(r"\\\1", printable(text))


def _markdown_block(block: Block) -> Iterable[str]:
    if isinstance(block, Heading):
        return [f"## {_markdown_text(block.text)}"]
    if isinstance(block, Facts):
        return [f"- **{_markdown_text(name)}:** {_markdown_text(value)}" for name, value in block.rows]
    if isinstance(block, Bars):
        rows = [
            (bar.name, bar.amount, f"{bar.share * 100:.0f} %", "█" * max(1, round(bar.share * _BAR)))
            for bar in block.rows
        ]
        return _markdown_table(("State", ">GPU time", ">Fraction", ""), rows)
    if isinstance(block, Table):
        return _markdown_table(block.head, block.rows)
    if isinstance(block, Steps):
        return [
            f"{n}. **{_markdown_text(title)}** — {_markdown_text(text)}"
            for n, (title, text) in enumerate(block.rows, 1)
        ]
    return [_markdown_text(block.text)]


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    yield "| " + " | ".join(_markdown_text(name.removeprefix(">")) for name in head) + " |"
    yield "|" + "|".join("---:" if name.startswith(">") else "---" for name in head) + "|"
    for row in rows:
        yield "| " + " | ".join(map(_markdown_text, row)) + " |"


_LONGEST = 240
"""Characters of the short form; sacct shows it whole, and slurmdbd keeps it in a text column."""


def to_json(report: JobReport | Digest, also: Mapping[str, Any]) -> str:
    """The report's fields and derived numbers, and what another source reports of the same job."""
    content = {**dataclasses.asdict(report), **also}
    if isinstance(report, JobReport):
        content |= {
            "gpus": report.gpus,
            "gpu_hours": allocated(report.hours),
            "gpu_hours_used": report.used_hours,
            "gpu_hours_wasted": lost(report.hours),
            "utilization": utilization(report.hours),
            "energy_joules": report.energy_joules,
            "cost_wasted": report.cost_wasted,
            "throughput": {name: dataclasses.asdict(each) for name, each in report.throughput.items()},
            "to_end": dataclasses.asdict(report.to_end) if report.to_end else None,
        }
    return printable_json(content, 2) + "\n"


def short(report: JobReport | Digest) -> str:
    """`GPU 43 % used; 8 GPUs 2.1 h; wasted 9.6 h, most on Waits for storage; memory 61 of 80 GiB; 12.4 kWh`."""
    if isinstance(report, Digest):
        return (
            f"GPU: allocated {words.hours(report.allocated)}; wasted {words.hours(report.wasted)}; {covers(report)}\n"
        )
    cause = worst(report.hours)
    parts = [
        f"GPU {words.percent(utilization(report.hours))} used" + model_flops(report.progress),
        f"{words.gpus(report.gpus)} {words.span(report.span.seconds)}",
        f"wasted {words.hours(lost(report.hours))}" + (f", most on {words.title(cause)}" if cause else ""),
    ]
    sizes = [(d.memory_peak_bytes, d.memory_total_bytes) for d in report.devices]
    known = [(peak, size) for peak, size in sizes if peak is not None and size]
    if known:
        peak, size = max(known, key=lambda pair: pair[0] / pair[1])
        parts.append(f"memory {words.gib(peak)} of {words.gib(size)}")
    if report.energy_joules is not None:
        parts.append(words.energy(report.energy_joules))
    return "; ".join(parts)[:_LONGEST] + "\n"
