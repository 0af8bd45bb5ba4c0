"""The command line: picks the subcommand, and turns a wrong input into one line and status 2."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from exporter import __version__
from exporter.config.option import ConfigError

COMMANDS = {
    "serve": "exporter.cli.serve",
    "once": "exporter.cli.once",
    "capture": "exporter.cli.capture",
    "check": "exporter.cli.check",
    "report": "exporter.cli.report",
    "completion": "exporter.cli.completion",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; without one, serve. The status is 0, or 2 for a wrong input, or the command's own."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["--version"]:
        sys.stdout.write(f"gpu-exporter {__version__}\n")
        return 0
    name = given.pop(0) if given and not given[0].startswith("-") else "serve"
    try:
        return int(importlib.import_module(_module(name)).run(given))
    except ConfigError as error:
        sys.stderr.write(f"gpu-exporter: {error}\n")
        return 2
    except BrokenPipeError:  # `gpu-exporter once | head`
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return 130


def _module(name: str) -> str:
    if name not in COMMANDS:
        raise ConfigError(f"unknown command {name!r}: expected one of {', '.join(COMMANDS)} (see --help)")
    return COMMANDS[name]


if __name__ == "__main__":
    sys.exit(main())
