"""Build the image from Debian's Python and the hashed wheels, for one platform or several: an OCI archive.

    python -m deploy.container.build --reference registry.example.com/gpu-exporter:0.1.0 gpu-exporter.tar

Needs Debian 12, root (to compile inside the image's own Python) and `pip`, no container engine and no emulator; the
same package versions give the same digest. `ctr images import`, `podman load`, `skopeo copy --all oci-archive:` and
`crane push` take the archive.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from deploy.container import debian, oci, sbom
from deploy.container.debian import PYTHON

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "deploy/container"
HOME = "/opt/gpu-exporter"
SOURCE = "https://github.com/gpu-exporter/gpu-exporter"
ENVIRONMENT = {
    "PATH": "/usr/bin",
    "NVIDIA_VISIBLE_DEVICES": "all",
    "NVIDIA_DRIVER_CAPABILITIES": "utility",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
}
WHEELS = {"amd64": "x86_64", "arm64": "aarch64"}
"""Of a Debian architecture, the name in the tags of wheels."""
GLIBC = ("2_17", "2_28", "2_34")
UNUSED = (
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


def build(reference: str, archive: Path, architectures: Sequence[str] = ()) -> str:
    """Write the archive, for this machine's platform or for those given, and return the digest.

    Raises CalledProcessError where a package cannot be had.
    """
    native = debian.native()
    wanted = tuple(architectures) or (native,)
    with tempfile.TemporaryDirectory() as scratch:
        # This machine's own comes first: its Python compiles for the others, since byte code is the same for all.
        order = [native, *(each for each in wanted if each != native)]
        roots: dict[str, Path] = {}
        images: dict[str, oci.Image] = {}
        for architecture in order:
            roots[architecture], images[architecture] = _tree(architecture, Path(scratch), roots.get(native), reference)
        return oci.write_all([(roots[each], images[each]) for each in wanted], archive)


def _tree(architecture: str, scratch: Path, native_root: Path | None, reference: str) -> tuple[Path, oci.Image]:
    folder = scratch / architecture
    root = folder / "root"
    root.mkdir(mode=0o755, parents=True)
    parts = [*debian.unpack(architecture, folder, root), *_python(architecture, folder, root)]
    _own_files(root)
    if native_root:
        _compile_inside(native_root, root)
    else:
        _compile(root)
        help_ = ["/usr/sbin/chroot", str(root), "/usr/bin/gpu-exporter", "--help"]  # everything it needs is there
        subprocess.run(help_, check=True, stdout=subprocess.DEVNULL, env={"PYTHONDONTWRITEBYTECODE": "1"})
    debian.check_machine(architecture, root)
    version = next(part.version for part in parts if part.name == "gpu-exporter")
    (root / "usr/share/sbom").mkdir()
    (root / "usr/share/sbom/gpu-exporter.spdx.json").write_text(sbom.spdx("gpu-exporter", version, parts))
    return root, oci.Image(
        reference=reference,
        entrypoint=("gpu-exporter",),
        environment=ENVIRONMENT,
        user="65534:65534",
        architecture=architecture,
        ports=(9836,),
        labels=labels(version, revision()),
    )


def labels(version: str, commit: str) -> dict[str, str]:
    """What the image says of itself; `revision` only where it is known."""
    made = {
        "title": "gpu-exporter",
        "description": "Prometheus exporter for NVIDIA GPUs: every GPU second has an owner and a cause",
        "version": version,
        "licenses": "Apache-2.0",
        "source": SOURCE,
        "documentation": f"{SOURCE}/tree/main/docs",
        "revision": commit,
    }
    return {f"org.opencontainers.image.{key}": value for key, value in made.items() if value}


def revision() -> str:
    """The commit of the checkout, with `-dirty` where it was changed since; empty without git or a checkout."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=40", "--dirty", "--match="]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _python(architecture: str, scratch: Path, root: Path) -> Iterator[sbom.Part]:
    home = root / HOME.strip("/")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    requirements = ["--require-hashes", "-r", str(HERE / "requirements.txt")]
    target = ["--target", str(home), "--no-compile", "--no-deps", "--python-version", PYTHON, "--only-binary", ":all:"]
    tags = [f"--platform=manylinux_{glibc}_{WHEELS[architecture]}" for glibc in GLIBC]
    subprocess.run([*pip, "install", *target, *tags, *requirements], check=True)
    # The build backend runs in an environment of its own, which takes its versions from here.
    pinned = {**os.environ, "PIP_CONSTRAINT": str(HERE / "build-constraints.txt")}
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(scratch), str(ROOT)], check=True, env=pinned)
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
    keep_licences(root / "usr/share/doc")
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


def keep_licences(documents: Path) -> None:
    """Of what Debian's packages document, the copyright files alone."""
    for path in sorted(documents.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.name != "copyright" and not path.is_dir():
            path.unlink()


def _compile(root: Path, inside: str = "") -> None:
    """Byte code by the Python in `root`, of its own files or of those of the tree `inside` it."""
    command = ["/usr/bin/python3", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    places = [f"{inside}{HOME}", f"{inside}/usr/lib/python{PYTHON}"]
    as_if = ["-s", inside, "-p", "/"] if inside else []
    subprocess.run(["/usr/sbin/chroot", str(root), *command, *as_if, *places], check=True, env={"PYTHONHASHSEED": "0"})


def _compile_inside(native_root: Path, root: Path) -> None:
    guest = native_root / "guest"
    root.rename(guest)
    try:
        _compile(native_root, "/guest")
    finally:
        guest.rename(root)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="build", description="Build the image as an OCI archive.")
    parser.add_argument("--reference", default="localhost/gpu-exporter:dev", help="name of the image")
    parser.add_argument(
        "--platform",
        action="append",
        choices=[f"linux/{each}" for each in WHEELS],
        default=[],
        help="may be given again for an image of several platforms; default: this machine's",
    )
    parser.add_argument("archive", type=Path)
    given = parser.parse_args(arguments)
    architectures = [platform.partition("/")[2] for platform in given.platform]
    sys.stdout.write(build(given.reference, given.archive, architectures) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
