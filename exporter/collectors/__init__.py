"""Every collector, in exposition order: adding one here is what plugs it in."""

from __future__ import annotations

from exporter.collector import AnyCollector

COLLECTORS: tuple[AnyCollector, ...] = ()
