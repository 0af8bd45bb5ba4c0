"""The options of the web server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from exporter.config.kinds import address, optional_path, text, url_path
from exporter.config.option import option


@dataclass(frozen=True, kw_only=True)
class WebConfig:
    """`--web.*`."""

    listen_address: tuple[str, int] = option(":9836", address, "Address to serve on.", metavar="ADDRESS")
    telemetry_path: str = option("/metrics", url_path, "Path of the metrics.", metavar="PATH")
    config_file: Path | None = option(
        "",
        optional_path,
        "TLS and basic auth, in the format of Prometheus exporters.",
        metavar="FILE",
        name="config.file",
    )
    runbook_url: str = option(
        "/runbooks/{name}", text, "URL of a runbook, where not the exporter's own; {name} is its name.", metavar="URL"
    )
