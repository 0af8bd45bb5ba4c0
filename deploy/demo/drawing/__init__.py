"""Draws the Grafana dashboards of this repository from their JSON and live data, where no Grafana is at hand."""
