"""`gpu-exporter completion`: print the completion of a shell."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from exporter.config.option import ConfigError
from exporter.tools.reference.shell_completion import SHELLS

_HELP = """\
usage: gpu-exporter completion bash|zsh|fish

Print what lets a shell complete commands, options and formats.

examples:
  gpu-exporter completion bash > /etc/bash_completion.d/gpu-exporter
  gpu-exporter completion zsh > "${fpath[1]}/_gpu-exporter"
  gpu-exporter completion fish > ~/.config/fish/completions/gpu-exporter.fish
"""


def run(arguments: Sequence[str]) -> int:
    """Status 0."""
    if list(arguments) in (["--help"], ["-h"]):
        sys.stdout.write(_HELP)
        return 0
    if len(arguments) != 1 or arguments[0] not in SHELLS:
        raise ConfigError(f"completion: expected one of {', '.join(SHELLS)}, got {' '.join(arguments) or 'nothing'}")
    sys.stdout.write(SHELLS[arguments[0]]())
    return 0
