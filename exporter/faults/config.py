"""The options of faults, of the GPUs that a node should have, and of maintenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from exporter.collectors.xid_catalogue import SITE
from exporter.config.kinds import Pairs, non_negative_int, optional_path, text
from exporter.config.option import option, section
from exporter.faults.reference import REFERENCES

reference: Pairs[Mapping[str, str]] = Pairs({name: each.accepts for name, each in REFERENCES.items()}, dict)
"""Values by name, from `driver=580.95.05,ecc=on`."""


@dataclass(frozen=True, kw_only=True)
class StateConfig:
    """`--state.*`."""

    folder: str = option(
        "auto",
        text,
        "Directory where faults and accounting are kept over restarts; empty: nowhere; auto: /var/lib/gpu-exporter, "
        "nowhere with --simulate.",
        metavar="DIR",
        name="dir",
    )


@dataclass(frozen=True, kw_only=True)
class FaultsConfig:
    """`--state.*`, `--expect.*` and `--maintenance.file`."""

    state: StateConfig = section(StateConfig)
    expect_gpus: int = option(
        "0",
        non_negative_int,
        "GPUs this node must have; 0: as many as its past, gres.conf and PCI bus show.",
        metavar="N",
        name="expect.gpus",
    )
    expect_reference: Mapping[str, str] = option(
        "",
        reference,
        "What every GPU must have, e.g. driver=580.95.05,ecc=on,power-limit=700; also vbios, model, persistence, "
        "nvlinks, pcie-width, and sm-clock and memory-clock (their maxima in MHz).",
        metavar="LIST",
        name="expect.reference",
    )
    xid: Mapping[int, str] = option(
        "",
        SITE,
        "The site's own list of XIDs, e.g. 79=ignore,43=page. ignore: no fault; page: a critical fault.",
        metavar="XID=WORD",
    )
    maintenance_file: Path | None = option(
        "/run/gpu-exporter/maintenance",
        optional_path,
        "While it exists, this node is in maintenance.",
        metavar="FILE",
        name="maintenance.file",
    )
