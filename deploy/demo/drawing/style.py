"""Looks of a drawn dashboard."""

from __future__ import annotations

STYLE = """
.controls{display:flex;flex-wrap:wrap;gap:.6rem;align-items:end;margin:.6rem 0}.controls label{font-size:.75rem;color:var(--dim)}
.controls select,.controls input{display:block;font:inherit;padding:.15rem .3rem;max-width:16rem}.controls input{width:5rem}
.grid24{display:grid;grid-template-columns:repeat(24,minmax(0,1fr));grid-auto-rows:30px;gap:8px;margin:.4rem 0 1rem}
.panel{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.4rem .6rem;overflow:auto;min-width:0;display:flex;flex-direction:column}
.panel h3{font-size:.8rem;margin:0 0 .2rem;font-weight:600}.stat{font-size:1.6rem;text-align:center;margin:auto;font-weight:600}.stat.none,.none{color:var(--dim);font-size:.85rem;font-weight:400;margin:auto}
.panel table{width:100%;border-collapse:collapse;font-size:.8rem}.panel th{text-align:left;color:var(--dim);font-weight:600}.panel td,.panel th{padding:.15rem .4rem;border-bottom:1px solid var(--line);white-space:nowrap}.n{text-align:right;font-variant-numeric:tabular-nums}
.panel td[style^="background"] a{color:inherit}
.gauge{display:inline-block;height:.7em;margin-right:.4em;border-radius:2px}
.bars{display:grid;grid-template-columns:auto 1fr auto;gap:.25rem .6rem;align-items:center;font-size:.8rem}.track{position:relative;height:.9rem;background:var(--line);border-radius:2px;overflow:hidden;display:block}.track i{display:block;height:100%}
.chart{display:flex;flex:1;min-height:0}.axis{display:flex;flex-direction:column;justify-content:space-between;font-size:.65rem;color:var(--dim);text-align:right;padding-right:.3rem;margin-bottom:1rem;white-space:nowrap}
.plot{flex:1;display:flex;flex-direction:column;min-width:0}.plot svg{flex:1;width:100%;min-height:0}.grid{stroke:var(--line);fill:none;vector-effect:non-scaling-stroke}.line{fill:none;stroke-width:1.4;vector-effect:non-scaling-stroke}
.times{display:flex;justify-content:space-between;font-size:.65rem;color:var(--dim);height:1rem}
.states{display:grid;grid-template-columns:auto 1fr;gap:.3rem .6rem;font-size:.75rem;align-items:center}.states .track i{position:absolute;top:0}
.legend{display:flex;flex-wrap:wrap;gap:.1rem .8rem;font-size:.7rem;margin:.2rem 0 0;max-height:4.2rem;overflow:auto}.legend i{display:inline-block;width:.7em;height:.7em;border-radius:2px;margin-right:.3em}
"""
