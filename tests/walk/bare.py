"""`make walk-demo`, `make walk-test`: the two commands that the README promises, in a fresh clone on bare machines.

Each supported system, with `make` and `python3` and nothing else. `make demo` runs as root and as an ordinary user:
every printed page is opened in a headless Chromium of this machine and every link of the first page is followed, a
mail and a page must arrive, and after Ctrl-C nothing may run or have been written anywhere outside the clone.
`make test` runs as root. Needs root, debootstrap and, for the demo, Chromium.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from tests.walk.machines import ROOT, SYSTEMS, TRUST, base, clone, fresh
from tests.walk.running import CHROMIUM, Demo, browse, links, settled, start, visit

_PATH = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
FIRST, SECOND = 400.0, 10.0
"""Seconds the first start may take with its downloads, and the second without, on cores that nobody else uses."""


def everything(folder: Path, but: Path) -> Mapping[str, tuple[int, int]]:
    """Every file outside the clone: its size and when it was last written."""
    found: dict[str, tuple[int, int]] = {}
    for place, folders, files in os.walk(folder):
        folders[:] = [
            name for name in folders if Path(place, name) != but and Path(place) / name not in _mounted(folder)
        ]
        for name in files:
            status = Path(place, name).lstat()
            found[f"{place}/{name}".removeprefix(str(folder))] = (status.st_size, status.st_mtime_ns)
    return found


def _mounted(folder: Path) -> Sequence[Path]:
    return (folder / "proc", folder / "dev", folder / "sys")


def processes(folder: Path) -> Sequence[str]:
    """What runs inside the machine."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "root").readlink() == folder:
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


@contextlib.contextmanager
def running(folder: Path, user: str, home: str) -> Generator[Demo]:
    """A demo inside the machine, ended by Ctrl-C; nothing of it may stay."""
    command = f"cd {home}/gpu-exporter && exec make demo"
    inside = ["chroot", str(folder), *(("su", user, "-c", command) if user != "root" else ("sh", "-c", command))]
    demo = start(inside, None, _PATH | {"HOME": home})
    try:
        yield demo
    finally:
        ended(demo, folder)


def walk_demo(folder: Path, suite: str, user: str, results: Path) -> None:
    """`make demo` twice, in a fresh clone of this user."""
    home = "/srv" if user == "root" else f"/home/{user}"
    checkout = folder / home.removeprefix("/") / "gpu-exporter"
    clone(folder, home, user)
    before = everything(folder, checkout)
    with running(folder, user, home) as demo:
        demo.until("Ctrl-C ends everything", FIRST * crowd())
        first = demo_seconds(demo)
        reached = opened(demo, results / f"{suite}_{user}")
    with running(folder, user, home) as again:
        again.until("Ctrl-C ends everything", SECOND * crowd())
        second = demo_seconds(again)
    after = everything(folder, checkout)
    changed = sorted(set(before.items()) ^ set(after.items()))
    assert not changed, f"written outside the clone: {changed[:5]}"
    assert not list((checkout / ".cache/demo").glob("run-*")), "a run's data is left behind"
    size = sum(path.lstat().st_size for path in (checkout / ".cache").rglob("*")) / 1e6
    sys.stdout.write(
        f"{SYSTEMS[suite].name} as {user}: first start {first:.0f} s, second {second:.1f} s, "
        f"{crowd():.1f} programs a core, {size:.0f} MB in .cache, "
        f"{len(demo.urls)} printed pages and {reached} links open, nothing left, nothing outside\n"
    )
    sys.stdout.flush()


def walk_tests(folder: Path, suite: str, results: Path) -> None:
    """`make test` in a fresh clone; what it says goes to a file."""
    clone(folder, "/srv", "root")
    output = results / f"{suite}_test.txt"
    began = time.monotonic()
    with output.open("w") as said:
        command = ["chroot", str(folder), "sh", "-c", "cd /srv/gpu-exporter && exec make test"]
        done = subprocess.run(
            command,
            env=_PATH | TRUST | {"HOME": "/root"},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            check=False,
        )
    last = output.read_text().rstrip().rpartition("\n")[2]
    sys.stdout.write(f"{SYSTEMS[suite].name}: make test: {time.monotonic() - began:.0f} s: {last} ({output})\n")
    sys.stdout.flush()
    assert done.returncode == 0, f"make test ended with {done.returncode}: {output}"


def crowd() -> float:
    """How many programs share one core of this machine, the demo included; 1 where it is quiet."""
    return max(1.0, (os.getloadavg()[0] + 1) / (os.cpu_count() or 1))


def opened(demo: Demo, pictures: Path) -> int:
    """Every printed page as a browser shows it, and the links of the first; how many those were."""
    demo.until("ticket to on-call", 200)
    for url in demo.urls:
        settled(url, browse)
        browse(url, Path(f"{pictures}{url.split('127.0.0.1')[1].replace('/', '_').replace(':', '_')}.png"))
    reached = links(demo.urls[0], visit(demo.urls[0]))
    for url in reached:
        visit(url)
    demo.until("mail to ", 200)
    demo.until("page to on-call", 200)
    browse(demo.urls[0], Path(f"{pictures}_after.png"))
    return len(reached)


def ended(demo: Demo, folder: Path) -> None:
    """Ctrl-C ends it and all it started."""
    code = demo.end()
    assert code in (0, 2, 130, -2), f"ended with {code}"  # make's own status when it is interrupted
    deadline = time.monotonic() + 20
    while left := processes(folder):
        assert time.monotonic() < deadline, f"still running: {left}"
        time.sleep(0.2)


def demo_seconds(demo: Demo) -> float:
    return demo.ready - demo.began


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("command", choices=("demo", "test"), help="which of the two promised commands")
    parser.add_argument("folder", type=Path, help="where the bare machines are, or are to be made")
    parser.add_argument("--suite", action="append", choices=SYSTEMS, help="all when left out")
    parser.add_argument("--user", action="append", help="of the demo: root or ada; both when left out")
    parser.add_argument("--results", type=Path, default=ROOT / ".cache/walk", help="pictures, and the tests' output")
    given = parser.parse_args()
    if os.getuid() or not shutil.which("debootstrap") or (given.command == "demo" and not CHROMIUM):
        parser.error("needs root, debootstrap and, for the demo, chromium")
    folder: Path = given.folder.resolve()
    for path in (folder, given.results):
        path.mkdir(parents=True, exist_ok=True)
    for suite in given.suite or SYSTEMS:
        if given.command == "test":
            with fresh(base(folder, suite)) as inside:
                walk_tests(inside, suite, given.results)
            continue
        for user in given.user or ("root", "ada"):
            with fresh(base(folder, suite)) as inside:
                walk_demo(inside, suite, user, given.results)


if __name__ == "__main__":
    main()
