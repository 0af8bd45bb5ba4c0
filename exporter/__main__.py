"""The command line: picks the subcommand, and turns a wrong input into one line and status 2."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Mapping, Sequence

from exporter import __version__, commands
from exporter.config import load as config
from exporter.config.kinds import near_miss
from exporter.config.logs import prepare_streams, print_error
from exporter.config.option import ConfigError

_UNKNOWN: Mapping[str, int] = {"check": 3}
"""Status of a command whose 1 and 2 are verdicts, for a wrong input, for output that cannot be written, and for what
it did not expect: Python's own status of a program that breaks off is 1."""
_OUTPUT = frozenset({errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG, errno.EBADF})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; without one, serve. The status is 0, or 2 for a wrong input, or the command's own."""
    prepare_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    name = given.pop(0) if given and not given[0].startswith("-") else "serve"
    try:
        return _status(name, given)
    except Exception:
        if name not in _UNKNOWN:
            raise
        traceback.print_exc()
        return _UNKNOWN[name]


def _status(name: str, given: Sequence[str]) -> int:
    try:
        status = _run(name, given)
        sys.stdout.flush()
    except ConfigError as error:
        print_error(str(error))
        return _UNKNOWN.get(name, 2)
    except BrokenPipeError:  # `gpu-exporter once | head`
        _forget_output()
        return 0
    except OSError as error:
        if error.errno not in _OUTPUT or error.filename is not None:
            raise
        _forget_output()
        print_error(f"standard output cannot be written: {error.strerror}")
        return _UNKNOWN.get(name, 1)
    except KeyboardInterrupt:
        return 130
    return status


def _run(name: str, given: Sequence[str]) -> int:
    if given[:1] == ["--version"] and name == "serve":  # known without loading anything
        sys.stdout.write(f"gpu-exporter {__version__}\n")
        return 0
    if name not in commands.COMMANDS:
        known = ", ".join(commands.COMMANDS)
        hint = near_miss(name, commands.COMMANDS)
        raise ConfigError(f"unknown command {name!r}{hint}: expected one of {known} (see --help)")
    _refuse_unknown_variables()
    return commands.run(name, given, os.environ)


def _refuse_unknown_variables() -> None:
    """Raises ConfigError. The options of all commands are loaded only where one of them may be meant."""
    if not any(name.startswith(config.PREFIX) for name in os.environ):
        return
    known = {option.environment for option in commands.options("serve")}
    if config.unknown(os.environ, known):
        config.refuse(os.environ, {option.environment for option in commands.every_option().values()})


def _forget_output() -> None:
    """Discard output that could not be written, so that it does not fail again when Python ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


if __name__ == "__main__":
    sys.exit(main())
