"""Builds the fake driver library: `build("470")` gives the folder of one that has only the functions of R470."""

from __future__ import annotations

import fcntl
import hashlib
import re
import subprocess
import sys
from collections.abc import Iterable
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

SOURCES = Path(__file__).parent
CACHE = Path(__file__).resolve().parents[2] / ".cache" / "fake_nvml"
SONAME = "libnvidia-ml.so.1"
NEWEST = "615"
_HEADER_PACKAGE = "nvidia-nvml-dev"
_DECLARATION = re.compile(r"nvmlReturn_t\s+DECLDIR\s+(nvml\w+)\s*\(([^;]*)\);")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_FLAGS = ("-std=gnu11", "-O1", "-fPIC", "-Wall", "-Wextra", "-Werror")


def build(branch: str = NEWEST, without: Iterable[str] = ()) -> Path:
    """The folder with libnvidia-ml.so.1 as driver branch `branch` exports it, less the functions in `without`."""
    left_out = frozenset(without)
    header = _header()
    key = hashlib.sha256(b"".join(path.read_bytes() for path in (*_sources(), header))).hexdigest()[:12]
    name = "-".join([branch, *sorted(left_out)])
    folder = CACHE / key / name
    with _locked():
        if not (folder / SONAME).exists():
            folder.mkdir(parents=True, exist_ok=True)
            _link(folder, _objects(CACHE / key / "objects", header), _exported(int(branch)) - left_out)
    return folder


def _sources() -> list[Path]:
    return sorted(path for path in SOURCES.iterdir() if path.suffix in {".c", ".h", ".tsv"} or path == Path(__file__))


def _header() -> Path:
    """NVIDIA's own header, so that the structs are what its driver uses."""
    files = metadata.files(_HEADER_PACKAGE) or []
    return next(Path(str(file.locate())) for file in files if file.name == "nvml.h")


@contextmanager
def _locked() -> Generator[None]:
    """Several test processes may want the library at once."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _objects(folder: Path, header: Path) -> list[Path]:
    """Each source compiled, and a weak NOT_SUPPORTED stub of every function the header declares."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stubs.c").write_text(_stubs(header.read_text(errors="replace")))
    sources = [*sorted(SOURCES.glob("*.c")), folder / "stubs.c"]
    running = [
        subprocess.Popen(
            ["gcc", *_FLAGS, *(["-Wno-unused-parameter"] if source.name == "stubs.c" else []), f"-I{header.parent}",
             f"-I{SOURCES}", "-c", str(source), "-o", str(folder / f"{source.stem}.o")]
        )
        for source in sources
    ]  # fmt: skip
    if any(process.wait() for process in running):
        raise RuntimeError("the fake driver library does not compile")
    return [folder / f"{source.stem}.o" for source in sources]


def _stubs(header: str) -> str:
    lines = ['#include "fake.h"']
    for name, arguments in _DECLARATION.findall(header):
        declared = " ".join(_COMMENT.sub("", arguments).split())
        lines.append(f'__attribute__((weak)) nvmlReturn_t {name}({declared}) {{ return stub("{name}"); }}')
    return "\n".join(lines) + "\n"


def _exported(branch: int) -> set[str]:
    rows = [line.split("\t") for line in (SOURCES / "symbols.tsv").read_text().splitlines() if line[:1] != "#"]
    return {"nvmlErrorString"} | {name for name, first in rows if int(first) <= branch}


def _link(folder: Path, objects: list[Path], exported: set[str]) -> None:
    script = folder / "exported.map"
    script.write_text("{ global: " + " ".join(f"{name};" for name in sorted(exported)) + " local: *; };\n")
    made = folder / f"{SONAME}.new"
    subprocess.run(
        ["gcc", "-shared", f"-Wl,-soname,{SONAME}", f"-Wl,--version-script={script}", "-o", str(made),
         *map(str, objects), "-lm", "-lpthread"],
        check=True,
    )  # fmt: skip
    made.rename(folder / SONAME)


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
