"""Minutes of random input for every parser: by atheris, which looks at what the code does with it, or by plain chance.

Run by `make fuzz`. Status 1 where an input raised what it must not, took 25 seconds or a gigabyte; it is printed.
`python -m tests.fuzz.fuzz [--seconds N] [TARGET...]`
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ENGINE = "atheris" if importlib.util.find_spec("atheris") else "chance"
LONGEST = 4096


def by_atheris(name: str, seconds: int) -> None:
    """Ends the process."""
    import atheris  # noqa: PLC0415 - not in every environment

    with atheris.instrument_imports(include=["exporter", "h11"]):
        from tests.fuzz.targets import TARGETS  # noqa: PLC0415 - its imports are what is instrumented
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(target.seeds):
            (Path(folder) / str(number)).write_bytes(seed)
        options = [f"-max_total_time={seconds}", f"-max_len={LONGEST}", "-timeout=25", "-rss_limit_mb=1024"]
        atheris.Setup(
            [sys.argv[0], *options, f"-artifact_prefix={folder}/", folder], lambda data: _run(target.run, data)
        )
        atheris.Fuzz()


def _run(run: object, data: bytes) -> None:
    try:
        run(data)  # type: ignore[operator]
    except Exception:
        sys.stdout.write(f"input: {data!r}\n")
        raise


def by_chance(name: str, seconds: int) -> None:
    from tests.fuzz.targets import TARGETS  # noqa: PLC0415 - as above

    target, chance, runs = TARGETS[name], random.Random(0), 0  # noqa: S311 - no secret
    known, end = list(target.seeds), time.monotonic() + seconds
    while time.monotonic() < end:
        data = changed(chance.choice(known), chance)
        began = time.monotonic()
        _run(target.run, data)
        assert time.monotonic() - began < 25, data
        runs += 1
        if len(known) < 1000 and chance.random() < 0.05:
            known.append(data)
    sys.stdout.write(f"Done {runs} runs\n")


def changed(data: bytes, chance: random.Random) -> bytes:
    found = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(found))
        kind = chance.randint(0, 3)
        if kind == 0:
            found[at:at] = chance.randbytes(chance.randint(1, 8))
        elif kind == 1:
            del found[at : at + chance.randint(1, 8)]
        elif kind == 2:
            found[at:at] = found[chance.randint(0, len(found)) :][:64] * chance.randint(1, 8)
        else:
            found[at : at + 1] = chance.choice((b"\0", b"\xff", b"\n", b"-", b"9" * 30, b"[", b'"', b"="))
    return bytes(found[:LONGEST])


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, help="for each parser, instead of its minutes")
    parser.add_argument("--one", action="store_true", help="fuzz the only target named, in this process")
    parser.add_argument("targets", nargs="*")
    arguments = parser.parse_args()
    if arguments.one:
        (by_atheris if ENGINE == "atheris" else by_chance)(arguments.targets[0], arguments.seconds)
        return 0
    from tests.fuzz.targets import TARGETS  # noqa: PLC0415 - not before it is instrumented in the processes that fuzz

    failed = 0
    for name in arguments.targets or TARGETS:
        seconds = arguments.seconds or 60 * TARGETS[name].minutes
        command = [sys.executable, "-m", "tests.fuzz.fuzz", "--one", "--seconds", str(seconds), name]
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            own = os.environ | {"TMPDIR": folder}
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=own)
        said = done.stdout + done.stderr
        runs = next((line for line in reversed(said.splitlines()) if line.startswith("Done ")), "")
        good = done.returncode == 0 and bool(runs)
        failed += not good
        sys.stdout.write(f"{name:20} {ENGINE} {runs if good else 'FAILED'}\n" + ("" if good else said[-3000:]))
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
