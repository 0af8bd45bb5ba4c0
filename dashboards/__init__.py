"""Grafana dashboards: one module per dashboard, and the JSON made from them under json/."""
