"""Nodes distinguished, however many exporters each has: an old and a new one of another port while they change over."""

from __future__ import annotations


def by_host(expr: str) -> str:
    """`expr` with the label `host`: its node, or its instance without the port where targets have no such label."""
    of_instance = f'label_replace({expr}, "host", "$1", "instance", "(.+?)(:[0-9]+)?")'
    return f'label_replace({of_instance}, "host", "$1", "node", "(.+)")'
