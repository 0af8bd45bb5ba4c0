"""Build the image without a container engine, from Debian's Python and the hashed wheels: an OCI archive.

    python -m deploy.container.build --reference registry.example.com/gpu-exporter:0.1.0 gpu-exporter.tar

Needs Debian 12, root (to compile inside the image's own Python) and `pip`; the same package versions give the same
digest. `ctr images import`, `podman load`, `skopeo copy oci-archive:` and `crane push` take the archive.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from deploy.container import oci, sbom

ROOT = Path(__file__).resolve().parents[2]
PYTHON = "3.11"
HOME = "/opt/gpu-exporter"
ENVIRONMENT = {
    "PATH": "/usr/bin",
    "NVIDIA_VISIBLE_DEVICES": "all",
    "NVIDIA_DRIVER_CAPABILITIES": "utility",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
}
PACKAGES = (
    f"python{PYTHON}-minimal libpython{PYTHON}-minimal libpython{PYTHON}-stdlib media-types tzdata ca-certificates "
    "libc6 libgcc-s1 zlib1g libbz2-1.0 liblzma5 libexpat1 libffi8 libssl3 libuuid1 libcrypt1 libsqlite3-0 libtirpc3 "
    "libnsl2 libgssapi-krb5-2 libkrb5-3 libk5crypto3 libkrb5support0 libcom-err2 libkeyutils1"
).split()
UNUSED = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/sbin",
    "usr/share/zoneinfo/right",
)
ENTRY = f"""#!/usr/bin/python{PYTHON} -I
import sys

sys.path.insert(0, "{HOME}")
from exporter.__main__ import main

sys.exit(main())
"""
USERS = "root:x:0:0:root:/:/nonexistent\nnobody:x:65534:65534:nobody:/:/nonexistent\n"


def build(reference: str, archive: Path) -> str:
    """Write the archive and return the image's digest. Raises CalledProcessError where a package cannot be had."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "root"
        root.mkdir(mode=0o755)
        parts = [*_debian(Path(scratch), root), *_python(Path(scratch), root)]
        _own_files(root)
        version = next(part.version for part in parts if part.name == "gpu-exporter")
        (root / "usr/share/sbom").mkdir()
        (root / "usr/share/sbom/gpu-exporter.spdx.json").write_text(sbom.spdx("gpu-exporter", version, parts))
        image = oci.Image(
            reference=reference,
            entrypoint=("gpu-exporter",),
            environment=ENVIRONMENT,
            user="65534:65534",
            ports=(9836,),
            labels={
                "org.opencontainers.image.title": "gpu-exporter",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        )
        return oci.write(root, image, archive)


def _debian(scratch: Path, root: Path) -> Iterator[sbom.Part]:
    """Unpack the packages; their scripts do not run, so nothing of this machine gets in."""
    debs = scratch / "debs"
    debs.mkdir(mode=0o777)
    subprocess.run(["/usr/bin/apt-get", "download", "-q", *PACKAGES], cwd=debs, check=True, stdout=subprocess.DEVNULL)
    for deb in sorted(debs.glob("*.deb")):
        subprocess.run(["/usr/bin/dpkg-deb", "-x", str(deb), str(root)], check=True)
        fields = ("-W", "--showformat=${Package} ${Version}")
        shown = subprocess.run(["/usr/bin/dpkg-deb", *fields, str(deb)], check=True, capture_output=True, text=True)
        name, version = shown.stdout.split()
        yield sbom.Part("deb", name, version)


def _python(scratch: Path, root: Path) -> Iterator[sbom.Part]:
    home = root / HOME.strip("/")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    requirements = ["--require-hashes", "-r", str(ROOT / "deploy/container/requirements.txt")]
    target = ["--target", str(home), "--no-compile", "--no-deps", "--python-version", PYTHON, "--only-binary", ":all:"]
    subprocess.run([*pip, "install", *target, *requirements], check=True)
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(scratch), str(ROOT)], check=True)
    (wheel,) = scratch.glob("gpu_exporter-*.whl")
    subprocess.run([*pip, "install", *target, "--upgrade", str(wheel)], check=True)
    shutil.rmtree(home / "bin", ignore_errors=True)
    for trace in home.glob("*.dist-info/direct_url.json"):
        trace.unlink()  # where this build lay, and the only thing that differs from one to the next
        record = trace.with_name("RECORD")
        kept = [line for line in record.read_text().splitlines(keepends=True) if "/direct_url.json," not in line]
        record.write_text("".join(kept))
    for found in importlib.metadata.distributions(path=[str(home)]):
        yield sbom.Part("pypi", re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower(), found.version)


def _own_files(root: Path) -> None:
    for folder in UNUSED:
        shutil.rmtree(root / folder, ignore_errors=True)
    entry = root / "usr/bin/gpu-exporter"
    entry.write_text(ENTRY)
    entry.chmod(0o755)
    (root / "usr/bin/python3").symlink_to(f"python{PYTHON}")
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/passwd").write_text(USERS)
    (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
    certificates = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(path.read_text() for path in certificates))
    for folder in ("tmp", "proc", "sys", "dev", "run", "host"):
        (root / folder).mkdir(exist_ok=True)
    compile_ = ["/usr/bin/python3", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    subprocess.run(
        ["/usr/sbin/chroot", str(root), *compile_, HOME, f"/usr/lib/python{PYTHON}"],
        check=True,
        env={"PYTHONHASHSEED": "0"},
    )
    help_ = ["/usr/sbin/chroot", str(root), "/usr/bin/gpu-exporter", "--help"]  # everything it needs is there
    subprocess.run(help_, check=True, stdout=subprocess.DEVNULL, env={"PYTHONDONTWRITEBYTECODE": "1"})


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="build", description="Build the image as an OCI archive.")
    parser.add_argument("--reference", default="localhost/gpu-exporter:dev", help="name of the image")
    parser.add_argument("archive", type=Path)
    given = parser.parse_args(arguments)
    sys.stdout.write(build(given.reference, given.archive) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
