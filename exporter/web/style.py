"""Looks of the status page. Colours of states and verdicts are the palette's."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.faults.rule import Verdict
from exporter.ledger.palette import page_colours

VERDICTS: Mapping[Verdict, str] = {
    Verdict.OK: "var(--good)",
    Verdict.DEGRADED: "var(--warn)",
    Verdict.FAILED: "var(--bad)",
    Verdict.UNKNOWN: "var(--none)",
}

STYLE = (
    page_colours()
    + """\
*{box-sizing:border-box}body{margin:0 auto;max-width:1400px;padding:1rem;font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
h1{font-size:1.4rem;margin:0}h2{font-size:1rem;margin:1.2rem 0 .5rem}.gpu h2{margin-top:0}small{font-weight:400}p{margin:.4rem 0}a{color:var(--link)}
main{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,290px),1fr));align-items:start;gap:.8rem;margin:.8rem 0 1.4rem}
.gpu,.verdict{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.8rem;min-width:0}
.verdict{border-left:8px solid;margin:.6rem 0}.verdict>b{font-size:1.2rem}.verdict ul,.finding{margin:.4rem 0 0;padding-left:1.1rem}
.finding{border-left:4px solid;padding:.2rem .6rem;margin-bottom:.6rem;font-size:.85rem}
dl{display:grid;grid-template-columns:1fr 1fr;gap:.3rem .8rem;margin:0 0 .5rem}dt{color:var(--dim);font-size:.75rem}dd{margin:0;font-variant-numeric:tabular-nums}
figure{margin:.3rem 0}svg{display:block;width:100%;height:44px;background:var(--paper);border-radius:4px}
path{fill:none;stroke:var(--link);stroke-width:1.5;vector-effect:non-scaling-stroke}figcaption{font-size:.7rem;color:var(--dim)}
.bar{display:flex;height:14px;border-radius:4px;overflow:hidden;margin:.5rem 0 .1rem;background:var(--line)}.bar i{display:block}
.legend{display:flex;flex-wrap:wrap;gap:.2rem .9rem;font-size:.8rem;color:var(--dim)}.legend i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.35em}
.owners{list-style:none;margin:.3rem 0;padding:0}.uuid{font-size:.7rem;overflow-wrap:anywhere}.dim{color:var(--dim)}
.badge{display:inline-block;border-radius:99px;padding:.1rem .6rem;font-size:.8rem;font-weight:600;border:1px solid}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.85rem}th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid var(--line);white-space:nowrap}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
"""
)
