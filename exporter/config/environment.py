"""Environment variables that look like options and are none: a typing error must not be ignored."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from exporter.config.kinds import near_miss
from exporter.config.option import ConfigError

PREFIX = "GPU_EXPORTER_"
FILE = f"{PREFIX}CONFIG_FILE"
KIT = frozenset({f"{PREFIX}{name}" for name in ("JOBS", "CHECK_SETTINGS", "REPORT_SETTINGS", "REPORT_AFTER")})
"""Read by the scripts of deploy/slurm."""
_SERVICE = re.compile(rf"{PREFIX}(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)")
"""The variables Kubernetes gives every pod of a namespace about a service called gpu-exporter or gpu-exporter-…"""


def unknown(environment: Mapping[str, str], known: Collection[str]) -> list[str]:
    """Names that begin as options do, and are none of `known`."""
    taken = {FILE, *KIT, *known}
    return sorted(n for n in environment if n.startswith(PREFIX) and n not in taken and not _SERVICE.fullmatch(n))


def refuse(environment: Mapping[str, str], known: Collection[str]) -> None:
    """Raises ConfigError for the first variable that is no option, with the one that was probably meant."""
    for name in unknown(environment, known):
        hint = near_miss(name, known)
        raise ConfigError(f"{name}: no option is set by this variable{hint} (docs/options.md has them all)")
