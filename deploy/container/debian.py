"""Debian's packages for a platform, unpacked; their scripts do not run, so nothing of this machine gets in."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from deploy.container import sbom

PYTHON = "3.11"
PACKAGES = (
    f"python{PYTHON}-minimal libpython{PYTHON}-minimal libpython{PYTHON}-stdlib media-types tzdata ca-certificates "
    "libc6 libgcc-s1 gcc-12-base zlib1g libbz2-1.0 liblzma5 libexpat1 libffi8 libssl3 libuuid1 libcrypt1 "
    "libsqlite3-0 libtirpc3 libnsl2 libgssapi-krb5-2 libkrb5-3 libk5crypto3 libkrb5support0 libcom-err2 libkeyutils1"
).split()
MACHINES = {"amd64": 62, "arm64": 183}
"""Of a Debian architecture, the machine in the head of an ELF file."""


def native() -> str:
    shown = subprocess.run(["/usr/bin/dpkg", "--print-architecture"], check=True, capture_output=True, text=True)
    return shown.stdout.strip()


def unpack(architecture: str, scratch: Path, root: Path) -> Iterator[sbom.Part]:
    """Raises CalledProcessError where a package cannot be had, RuntimeError for one of another machine."""
    debs = scratch / "debs"
    debs.mkdir(mode=0o777)
    apt = ["/usr/bin/apt-get", "-q", *_foreign(architecture, scratch)]
    if architecture != native():
        subprocess.run([*apt, "update"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*apt, "download", *PACKAGES], cwd=debs, check=True, stdout=subprocess.DEVNULL)
    for deb in sorted(debs.glob("*.deb")):
        subprocess.run(["/usr/bin/dpkg-deb", "-x", str(deb), str(root)], check=True)
        fields = ("-W", "--showformat=${Package} ${Version}")
        shown = subprocess.run(["/usr/bin/dpkg-deb", *fields, str(deb)], check=True, capture_output=True, text=True)
        name, version = shown.stdout.split()
        yield sbom.Part("deb", name, version)


def _foreign(architecture: str, scratch: Path) -> list[str]:
    """Options that let apt act for another platform, with lists of its own: this machine's stay as they are."""
    if architecture == native():
        return []
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (scratch / folder).mkdir(parents=True)
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "root",
        "Dir::State": str(scratch / "state"),
        "Dir::State::status": "/dev/null",
        "Dir::Cache": str(scratch / "cache"),
    }
    return [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]


def check_machine(architecture: str, root: Path) -> None:
    """Raises RuntimeError with the first file that another machine would have to run."""
    for path in root.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as file:
            head = file.read(20)
        if head[:4] == b"\x7fELF" and int.from_bytes(head[18:20], "little") != MACHINES[architecture]:
            raise RuntimeError(f"{path.relative_to(root)} is not for {architecture}")
