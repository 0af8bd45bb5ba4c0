"""Bare machines of every supported system: a chroot made by debootstrap with `make` and `python3`, and overlays of it.

A base is made once and stays as it was made. Work is done in an overlay of it, which is gone afterwards.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_TRUSTED = "/srv/authorities.crt"
"""What this machine trusts, where no package of the other writes over it."""
TRUST = {"PIP_CERT": _TRUSTED, "REQUESTS_CA_BUNDLE": _TRUSTED} if _AUTHORITIES.exists() else {}
"""The variables by which pip inside trusts what this machine trusts."""
_SCRIPTS = Path("/usr/share/debootstrap/scripts")


@dataclass(frozen=True)
class Distribution:
    """Where the packages of its releases are."""

    mirror: str
    components: str
    script: str
    """Of debootstrap, for a release that is newer than debootstrap."""


@dataclass(frozen=True)
class System:
    """A supported system."""

    name: str
    distribution: Distribution


_DEBIAN = Distribution("http://deb.debian.org/debian", "main", "sid")
_UBUNTU = Distribution("http://archive.ubuntu.com/ubuntu", "main,universe", "gutsy")
SYSTEMS: Mapping[str, System] = {
    "bookworm": System("Debian 12", _DEBIAN),
    "trixie": System("Debian 13", _DEBIAN),
    "jammy": System("Ubuntu 22.04", _UBUNTU),
    "noble": System("Ubuntu 24.04", _UBUNTU),
    "resolute": System("Ubuntu 26.04", _UBUNTU),
}
"""By the codename of the release."""


def base(folder: Path, suite: str) -> Path:
    """Return the bare machine of a suite below `folder`; one that is there already is used again."""
    made = folder / suite
    if not (made / "home/ada").exists():
        shutil.rmtree(made, ignore_errors=True)  # a download that was cut off
        _bootstrap(made, suite)
        _empty(made / "var/lib/apt/lists")
        _empty(made / "var/cache/apt/archives")
        subprocess.run(["chroot", str(made), "useradd", "--create-home", "ada"], check=True)
    _copy_authorities(made)
    return made


def _bootstrap(target: Path, suite: str) -> None:
    place = SYSTEMS[suite].distribution
    wanted = ("--variant=minbase", "--include=make,python3,passwd", f"--components={place.components}")
    script = _SCRIPTS / (suite if (_SCRIPTS / suite).exists() else place.script)
    subprocess.run(["debootstrap", *wanted, suite, str(target), place.mirror, str(script)], check=True)


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def _copy_authorities(target: Path) -> None:
    """Trust what this machine trusts: a proxy may stand between it and the registries."""
    if _AUTHORITIES.exists():
        for place in (str(_AUTHORITIES), _TRUSTED):
            copied = target / place.removeprefix("/")
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(_AUTHORITIES, copied)
    shutil.copy("/etc/resolv.conf", target / "etc/resolv.conf")


@contextlib.contextmanager
def overlay(made: Path) -> Generator[Path]:
    """The bare machine as it was made; what is done to this one is gone with it."""
    with tempfile.TemporaryDirectory(dir=made.parent) as scratch:
        upper, work, merged = (Path(scratch) / name for name in ("upper", "work", "merged"))
        for folder in (upper, work, merged):
            folder.mkdir()
        layers = f"lowerdir={made},upperdir={upper},workdir={work}"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, merged], check=True)
        try:
            yield merged
        finally:
            subprocess.run(["umount", "-R", "-l", merged], check=True)


@contextlib.contextmanager
def fresh(made: Path) -> Generator[Path]:
    """A bare machine to work in, with the devices and control groups of this one."""
    with overlay(made) as inside:
        subprocess.run(["mount", "-t", "proc", "proc", inside / "proc"], check=True)
        for name in ("sys", "dev"):
            subprocess.run(["mount", "--rbind", f"/{name}", inside / name], check=True)
            subprocess.run(["mount", "--make-rslave", inside / name], check=True)  # unmounted here only
        yield inside


def clone(folder: Path, home: str, user: str) -> None:
    """Put what is committed here into the machine, as a checkout of that user."""
    target = folder / home.removeprefix("/") / "gpu-exporter"
    target.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "x", "-C", str(target)], input=archive, check=True)
    subprocess.run(["chroot", str(folder), "chown", "-R", f"{user}:", f"{home}/gpu-exporter"], check=True)
