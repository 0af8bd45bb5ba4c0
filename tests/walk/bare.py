"""`make walk-demo`: a fresh clone on a bare Debian or Ubuntu, as root and as an ordinary user, and `make demo` there.

A chroot made by debootstrap with `make` and `python3` and nothing else. Every printed page is opened in a headless
Chromium of this machine and every link of the first page is followed, a mail and a page must arrive, and after Ctrl-C
nothing may run or have been written anywhere outside the clone. Needs root, debootstrap and Chromium.
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

from tests.walk.running import CHROMIUM, Demo, links, look, settled, start, visit

ROOT = Path(__file__).resolve().parents[2]
_MIRRORS = {"bookworm": "http://deb.debian.org/debian", "noble": "http://archive.ubuntu.com/ubuntu"}
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_PATH = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
FIRST, SECOND = 400.0, 10.0
"""Seconds the first start may take with its downloads, and the second without, on cores that nobody else uses."""


def machine(folder: Path, suite: str) -> None:
    """A bare machine; one that is there already is used again."""
    if (folder / "usr/bin/python3").exists():
        return
    components = ("--components=main,universe",) if suite == "noble" else ()
    wanted = ("--variant=minbase", "--include=make,python3", *components)
    script = (
        () if Path(f"/usr/share/debootstrap/scripts/{suite}").exists() else ("/usr/share/debootstrap/scripts/gutsy",)
    )
    subprocess.run(["debootstrap", *wanted, suite, str(folder), _MIRRORS[suite], *script], check=True)
    for path in (folder / "var/lib/apt/lists", folder / "var/cache/apt/archives"):
        for entry in path.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    subprocess.run(["chroot", str(folder), "useradd", "--create-home", "ada"], check=True)
    if AUTHORITIES.exists():  # what this machine trusts: a proxy may stand between it and the registries
        target = folder / str(AUTHORITIES).removeprefix("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(AUTHORITIES, target)
    shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")


def clone(folder: Path, home: str, user: str) -> None:
    """What is committed here, as a checkout of that user."""
    target = folder / home.removeprefix("/") / "gpu-exporter"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "x", "-C", str(target)], input=archive, check=True)
    subprocess.run(["chroot", str(folder), "chown", "-R", f"{user}:", f"{home}/gpu-exporter"], check=True)


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


def walk(folder: Path, user: str, pictures: Path) -> None:
    home = "/srv" if user == "root" else f"/home/{user}"
    checkout = folder / home.removeprefix("/") / "gpu-exporter"
    clone(folder, home, user)
    before = everything(folder, checkout)
    with running(folder, user, home) as demo:
        demo.until("Ctrl-C ends everything", FIRST * crowd())
        first = demo_seconds(demo)
        reached = opened(demo, user, pictures)
    with running(folder, user, home) as again:
        again.until("Ctrl-C ends everything", SECOND * crowd())
        second = demo_seconds(again)
    after = everything(folder, checkout)
    changed = sorted(set(before.items()) ^ set(after.items()))
    assert not changed, f"written outside the clone: {changed[:5]}"
    assert not list((checkout / ".cache/demo").glob("run-*")), "a run's data is left behind"
    size = sum(path.lstat().st_size for path in (checkout / ".cache").rglob("*")) / 1e6
    sys.stdout.write(
        f"{folder.name} as {user}: first start {first:.0f} s, second {second:.1f} s, "
        f"{crowd():.1f} programs a core, {size:.0f} MB in .cache, "
        f"{len(demo.urls)} printed pages and {reached} links open, nothing left, nothing outside\n"
    )


def crowd() -> float:
    """How many programs share one core of this machine, the demo included; 1 where it is quiet."""
    return max(1.0, (os.getloadavg()[0] + 1) / (os.cpu_count() or 1))


def opened(demo: Demo, user: str, pictures: Path) -> int:
    """Every printed page as a browser shows it, and the links of the first; how many those were."""
    demo.until("ticket to on-call", 200)
    for url in demo.urls:
        settled(url, look)
        look(url, pictures / f"{user}{url.split('127.0.0.1')[1].replace('/', '_').replace(':', '_')}.png")
    reached = links(demo.urls[0], visit(demo.urls[0]))
    for url in reached:
        visit(url)
    demo.until("mail to ", 200)
    demo.until("page to on-call", 200)
    look(demo.urls[0], pictures / f"{user}_after.png")
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
    parser.add_argument("folder", type=Path, help="where the machine is, or is to be made")
    parser.add_argument("--suite", choices=_MIRRORS, default="bookworm")
    parser.add_argument("--user", action="append", help="root or ada; both when left out")
    parser.add_argument("--pictures", type=Path, default=ROOT / ".cache/walk")
    given = parser.parse_args()
    if os.getuid() or not CHROMIUM or not shutil.which("debootstrap"):
        parser.error("needs root, debootstrap and chromium")
    folder: Path = given.folder.resolve()
    given.pictures.mkdir(parents=True, exist_ok=True)
    machine(folder, given.suite)
    mounts = [("proc", ["-t", "proc"]), ("/dev", ["--bind"])]
    for source, how in mounts:
        subprocess.run(["mount", *how, source, str(folder / source.removeprefix("/"))], check=True)
    try:
        for user in given.user or ("root", "ada"):
            walk(folder, user, given.pictures)
    finally:
        for source, _ in mounts:
            subprocess.run(["umount", str(folder / source.removeprefix("/"))], check=False)


if __name__ == "__main__":
    main()
