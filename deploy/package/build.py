"""`make package`: a Debian package, an RPM where rpmbuild is there, and a single file that needs only Python.

All three hold the same tree: the exporter and its dependencies at the versions the tests ran with. What is compiled for
one Python version alone is left out (all of it has a pure-Python twin), so the tree runs on 3.10 and every newer one.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
PYTHON_TREE = "usr/lib/gpu-exporter/python"
KIT = "usr/lib/gpu-exporter/slurm"
FILES: Mapping[str, tuple[str, int]] = {
    # in the package: in the repository, mode
    "usr/bin/gpu-exporter": ("deploy/package/gpu-exporter", 0o755),
    "usr/lib/systemd/system/gpu-exporter.service": ("deploy/systemd/gpu-exporter.service", 0o644),
    "usr/lib/systemd/system/gpu-exporter-summaries.service": ("deploy/systemd/gpu-exporter-summaries.service", 0o644),
    "usr/lib/systemd/system/gpu-exporter-summaries.timer": ("deploy/systemd/gpu-exporter-summaries.timer", 0o644),
    "usr/lib/sysusers.d/gpu-exporter.conf": ("deploy/systemd/sysusers.conf", 0o644),
    "usr/lib/tmpfiles.d/gpu-exporter.conf": ("deploy/systemd/tmpfiles.conf", 0o644),
    "usr/share/doc/gpu-exporter/capabilities.conf": ("deploy/systemd/capabilities.conf", 0o644),
    "usr/share/doc/gpu-exporter/copyright": ("LICENSE", 0o644),
    f"{KIT}/prolog.d/gpu-exporter": ("deploy/slurm/prolog.d/gpu-exporter", 0o755),
    f"{KIT}/epilog.d/gpu-exporter": ("deploy/slurm/epilog.d/gpu-exporter", 0o755),
    f"{KIT}/prolog": ("deploy/slurm/prolog", 0o755),
    f"{KIT}/epilog": ("deploy/slurm/epilog", 0o755),
    f"{KIT}/healthcheck": ("deploy/slurm/healthcheck", 0o755),
    f"{KIT}/epilogctld": ("deploy/slurm/epilogctld", 0o755),
    f"{KIT}/targets.py": ("deploy/slurm/targets.py", 0o755),
    f"{KIT}/gpuinfo.py": ("deploy/slurm/gpuinfo.py", 0o755),
    f"{KIT}/job_submit.lua": ("deploy/slurm/job_submit.lua", 0o644),
    f"{KIT}/ondemand/_gpu_jobs.html.erb": ("deploy/slurm/ondemand/_gpu_jobs.html.erb", 0o644),
    "etc/default/gpu-exporter": ("deploy/systemd/default", 0o644),
    "etc/default/gpu-exporter-check": ("deploy/systemd/default-check", 0o644),
    "etc/default/gpu-exporter-report": ("deploy/systemd/default-report", 0o644),
}
SHARED: Mapping[str, str] = {
    # folder below usr/share: what of the repository goes there
    "gpu-exporter/rules": "deploy/prometheus/rules/*.yaml",
    "gpu-exporter/dashboards": "dashboards/json/*.json",
    "gpu-exporter/alertmanager": "deploy/alertmanager/*",
    "gpu-exporter": "docs/config.schema.json",
    "doc/gpu-exporter": "docs/*.md",
    "doc/gpu-exporter/runbooks": "docs/runbooks/*.md",
}
_SAME_BITS = {
    "_buildhost": "localhost",
    "use_source_date_epoch_as_buildtime": "1",
    "clamp_mtime_to_source_date_epoch": "1",
}
"""Macros of rpmbuild: where SOURCE_DATE_EPOCH is set, neither the time nor the machine is in the package."""
CHANGELOG = "usr/share/doc/gpu-exporter/changelog.gz"
MANUALS = "usr/share/man/man1"
COMPLETION: Mapping[str, str] = {
    "bash": "usr/share/bash-completion/completions/gpu-exporter",
    "zsh": "usr/share/zsh/vendor-completions/_gpu-exporter",
    "fish": "usr/share/fish/vendor_completions.d/gpu-exporter.fish",
}
"""Made by the program itself."""
CONFIGURATION = tuple(f"/{path}" for path in FILES if path.startswith("etc/"))
DISTRIBUTIONS = ("nvidia-ml-py", "prometheus-client", "h11", "pyyaml", "bcrypt", "requests", "h2")
ARCHITECTURES = {"x86_64": ("amd64", "x86_64"), "aarch64": ("arm64", "aarch64")}


OLDEST = ("--python-version=3.10", "--implementation=cp", *(
    f"--platform={platform}_{os.uname().machine}" for platform in ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
))  # fmt: skip
"""Wheels that run with Python 3.10 and the C library of Enterprise Linux 8, and with everything newer."""


def version() -> str:
    return (ROOT / "exporter/__init__.py").read_text().partition('__version__ = "')[2].partition('"')[0]


def pins() -> Sequence[str]:
    """The versions the tests run with, from the dev group of pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text()
    return [f"{name}=={found[1]}" for name in DISTRIBUTIONS if (found := re.search(rf'"{name}==([^";]+)', text))]


def run(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True, cwd=ROOT)


def python_tree(into: Path, made: Path | None) -> None:
    """The exporter, as a wheel of it that is `made` or one made now, and what it needs.

    Without what fits one Python version only.
    """
    with tempfile.TemporaryDirectory() as scratch:
        constraints = Path(scratch) / "constraints"
        constraints.write_text("\n".join(pins()) + "\n")
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
        if not made:
            run(*pip, "wheel", "--no-deps", "--wheel-dir", scratch, ROOT)
        wheel = made or next(Path(scratch).glob("*.whl"))
        install = (*pip, "install", "--root-user-action=ignore", "--no-compile", "--only-binary=:all:")
        run(*install, *OLDEST, "--constraint", constraints, "--target", into, wheel)
    shutil.rmtree(into / "bin", ignore_errors=True)
    for path in [*into.rglob("*.cpython-*.so"), *into.rglob("direct_url.json"), *into.rglob("RECORD")]:
        path.unlink()
    for path in list(into.rglob("__pycache__")):
        shutil.rmtree(path)


def root_tree(into: Path, python: Path) -> None:
    """What the packages put where."""
    shutil.copytree(python, into / PYTHON_TREE)
    for path, (source, mode) in FILES.items():
        target = into / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / source, target)
        target.chmod(mode)
    _shared(into)
    _manuals(into, python)
    for shell, path in COMPLETION.items():
        target = into / path
        target.parent.mkdir(parents=True, exist_ok=True)
        command = (*_program(into), str(into / "usr/bin/gpu-exporter"), "completion", shell)
        target.write_bytes(subprocess.run(command, check=True, capture_output=True).stdout)
        target.chmod(0o644)
    for placed in (into, *into.rglob("*")):
        if placed.is_dir():
            placed.chmod(0o755)
        elif placed.is_relative_to(into / PYTHON_TREE):
            placed.chmod(0o644)


def _program(into: Path) -> Sequence[str]:
    """Python for the packages' own program: what it compiles is kept beside the tree, for all its runs."""
    return sys.executable, "-X", f"pycache_prefix={into.with_name('compiled')}"


def _shared(into: Path) -> None:
    """Rules, dashboards, documentation, changelog: for whoever runs Prometheus and Grafana."""
    for folder, pattern in SHARED.items():
        for source in sorted(path for path in ROOT.glob(pattern) if path.is_file()):
            target = into / "usr/share" / folder / source.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
            target.chmod(0o644)
    target = into / CHANGELOG
    target.write_bytes(gzip.compress((ROOT / "CHANGELOG.md").read_bytes(), mtime=0))
    target.chmod(0o644)


def _manuals(into: Path, python: Path) -> None:
    """Made by the program itself, as the completion is."""
    folder = into / MANUALS
    command = (*_program(into), "-m", "exporter.tools.reference.manual", str(folder))
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(python)}, cwd=python)
    for page in folder.iterdir():
        packed = page.with_name(f"{page.name}.gz")
        packed.write_bytes(gzip.compress(page.read_bytes(), mtime=0))
        packed.chmod(0o644)
        page.unlink()


def deb(tree: Path, out: Path) -> Path:
    architecture = ARCHITECTURES[os.uname().machine][0]
    made = out / f"gpu-exporter_{version()}_{architecture}.deb"
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "root"
        shutil.copytree(tree, root)
        size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) // 1024
        control = root / "DEBIAN"
        control.mkdir(mode=0o755)
        text = (HERE / "debian/control").read_text()
        (control / "control").write_text(text.format(version=version(), architecture=architecture, size=size))
        (control / "conffiles").write_text("\n".join(CONFIGURATION) + "\n")
        for script in ("postinst", "prerm", "postrm"):
            shutil.copy(HERE / "debian" / script, control / script)
            (control / script).chmod(0o755)
        run("dpkg-deb", "--root-owner-group", "--build", root, made)
    return made


def rpm(tree: Path, out: Path) -> Path | None:
    """None where rpmbuild is not there."""
    if not shutil.which("rpmbuild"):
        return None
    architecture = ARCHITECTURES[os.uname().machine][1]
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        named = (*FILES, *COMPLETION.values(), "usr/share/gpu-exporter", "usr/share/doc/gpu-exporter", f"{MANUALS}/*")
        listed = "\n".join(dict.fromkeys(_rpm_file(path) for path in named if not _within(path, named)))
        listed += f"\n/{PYTHON_TREE}\n" + "".join(f"%dir /{folder}\n" for folder in own_folders())
        spec = work / "gpu-exporter.spec"
        text = (HERE / "gpu-exporter.spec").read_text()
        spec.write_text(text.replace("@VERSION@", version()).replace("@FILES@", listed).replace("@TREE@", str(tree)))
        defined = {"_topdir": f"{work}/rpm", **_SAME_BITS}
        defines = [word for name, value in defined.items() for word in ("--define", f"{name} {value}")]
        run("rpmbuild", "-bb", "--quiet", *defines, "--target", architecture, spec)
        (built,) = (work / "rpm/RPMS").rglob("*.rpm")
        made = out / built.name
        shutil.copy(built, made)
    return made


def own_folders() -> Sequence[str]:
    """Folders that nobody else has files in, beside those that are listed as a whole: they go with the package."""
    home = Path(KIT).parent
    return sorted({str(folder) for path in FILES for folder in Path(path).parents if folder.is_relative_to(home)})


def _within(path: str, named: Sequence[str]) -> bool:
    """Whether a folder that is listed brings this file along."""
    return any(path.startswith(f"{folder}/") for folder in named)


def _rpm_file(path: str) -> str:
    return f"%config(noreplace) /{path}" if path.startswith("etc/") else f"/{path}"


def single_file(python: Path, out: Path, shiv: str) -> Path:
    made = out / f"gpu-exporter-{version()}.pyz"
    shebang = "/usr/bin/env python3"
    run(shiv, "--site-packages", python, "-e", "exporter.__main__:main", "-p", shebang, "--compressed", "-o", made)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path, help="folder to write to")
    parser.add_argument("--shiv", default="shiv", help="the shiv that makes the single file")
    parser.add_argument("--wheel", type=Path, help="the exporter's wheel; made here when not given")
    given = parser.parse_args()
    out: Path = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        python, tree = Path(scratch) / "python", Path(scratch) / "tree"
        python_tree(python, given.wheel)
        root_tree(tree, python)
        made = [deb(tree, out), rpm(tree, out), single_file(python, out, given.shiv)]
    for path in made:
        sys.stdout.write(f"{path}  {path.stat().st_size / 1e6:.1f} MB\n" if path else "no rpmbuild here: no RPM\n")


if __name__ == "__main__":
    main()
