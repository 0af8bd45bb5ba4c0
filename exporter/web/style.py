"""Looks of the status page: colours of the ledger's states and the style sheet."""

from __future__ import annotations

COLOURS = {
    "busy": "#2e9e5b",
    "communication": "#7cc36a",
    "memory_bound": "#a5cf6b",
    "small_kernels": "#cfe08a",
    "throttled_thermal": "#d64545",
    "throttled_power_brake": "#a82c6b",
    "wait_storage": "#e8853a",
    "wait_cpu": "#f0b13c",
    "wait_peer": "#b58bd6",
    "wait_other": "#d8b98a",
    "held_idle": "#8c5a3c",
    "free": "#b9c4ce",
    "unobserved": "#5b6570",
}
"""By state, in the order in which bars stack: what the GPU was bought for first."""

STYLE = """
:root{color-scheme:light dark;--fg:#1d2329;--dim:#66707a;--bg:#f6f7f9;--card:#fff;--line:#dde2e7;--plot:#2f6fd0}
@media(prefers-color-scheme:dark){:root{--fg:#e5e9ed;--dim:#98a2ac;--bg:#14181c;--card:#1d2329;--line:#333c45;--plot:#6ea4f4}}
*{box-sizing:border-box}body{margin:0 auto;max-width:1400px;padding:1rem;font:15px/1.45 system-ui,sans-serif;color:var(--fg);background:var(--bg)}
h1{font-size:1.4rem;margin:0}h2{font-size:1rem;margin:1.2rem 0 .5rem}.gpu h2{margin-top:0}small{font-weight:400}p{margin:.4rem 0}a{color:var(--plot)}
main{display:grid;grid-template-columns:repeat(auto-fill,minmax(270px,1fr));gap:.8rem;margin:.8rem 0 1.4rem}
.gpu{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.8rem;min-width:0}.gpu.down{border-color:#d64545}
dl{display:grid;grid-template-columns:1fr 1fr;gap:.3rem .8rem;margin:0 0 .5rem}dt{color:var(--dim);font-size:.75rem}dd{margin:0;font-variant-numeric:tabular-nums}
figure{margin:.3rem 0}svg{display:block;width:100%;height:44px;background:var(--bg);border-radius:4px}
path{fill:none;stroke:var(--plot);stroke-width:1.5;vector-effect:non-scaling-stroke}figcaption{font-size:.7rem;color:var(--dim)}
.bar{display:flex;height:12px;border-radius:4px;overflow:hidden;margin:.5rem 0;background:var(--line)}.bar i{display:block}
.legend{display:flex;flex-wrap:wrap;gap:.2rem .9rem;font-size:.8rem;color:var(--dim)}.legend i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.35em}
.owners{list-style:none;margin:.3rem 0;padding:0}.uuid{font-size:.7rem;overflow-wrap:anywhere}.dim{color:var(--dim)}
.badge{border-radius:99px;padding:.1rem .6rem;font-size:.8rem;font-weight:400;border:1px solid}.ok{color:#2e9e5b}.bad{color:#d64545}.note{color:#b07a1c}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.85rem}th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid var(--line);white-space:nowrap}.n{text-align:right;font-variant-numeric:tabular-nums}
"""
