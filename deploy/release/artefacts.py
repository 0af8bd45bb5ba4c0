"""`make release`: everything a release consists of, into one folder, with checksums.

    python deploy/release/artefacts.py dist --shiv .cache/package/bin/shiv

Wheel, source archive, Debian package, RPM where rpmbuild is there, single file, chart, and an archive of rules and
dashboards; the image is built by deploy/container. The version is that of exporter/__init__.py, and nowhere else.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm/gpu-exporter"
MONITORING = ("deploy/prometheus/rules/*.yaml", "dashboards/json/*.json", "deploy/alertmanager/*", "docs/runbooks/*.md")
"""For who wants the rules, dashboards, routes and runbooks without the exporter's repository."""


def version() -> str:
    return (ROOT / "exporter/__init__.py").read_text().partition('__version__ = "')[2].partition('"')[0]


def disagreements(wanted: str) -> list[str]:
    """Places that name another version than the program."""
    chart = (CHART / "Chart.yaml").read_text()
    found_in = {f"Chart.yaml {key}": _field(chart, key) for key in ("version", "appVersion")}
    headings = re.findall(r"^## (\d+\.\d+\.\d+\S*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    found_in["CHANGELOG.md"] = headings[0] if headings else "none"
    return [
        f"{place} says {found}, exporter/__init__.py {wanted}" for place, found in found_in.items() if found != wanted
    ]


def undated() -> list[str]:
    """The changelog's newest heading, where it has no day: a release has one."""
    heading = re.search(r"^## .*", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    title = heading[0] if heading else "no heading"
    dated = re.search(r"\(\d{4}-\d\d-\d\d\)$", title)
    return [] if dated else [f"CHANGELOG.md says {title!r}, with no day (YYYY-MM-DD)"]


def _field(text: str, key: str) -> str:
    found = re.search(rf"^{key}: *\"?([^\"\n]+)", text, re.MULTILINE)
    return found[1] if found else "none"


def archive(target: Path, files: Iterable[tuple[Path, str]]) -> None:
    """A tar archive that is the same for the same files: no times, no owners, one order."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for source, name in sorted(files, key=lambda item: item[1]):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = source.stat().st_size, 0o644
            with source.open("rb") as data:
                tar.addfile(entry, data)
    target.write_bytes(gzip.compress(content.getvalue(), mtime=0))


def chart(out: Path) -> None:
    """As `helm package` makes it."""
    left_out = {"tests", "ci", "__pycache__"}
    files = [f for f in CHART.rglob("*") if f.is_file() and not left_out & set(f.relative_to(CHART).parts)]
    archive(out / f"gpu-exporter-{version()}.tgz", [(f, f"gpu-exporter/{f.relative_to(CHART)}") for f in files])


def monitoring(out: Path) -> None:
    name = f"gpu-exporter-monitoring-{version()}"
    files = [path for pattern in MONITORING for path in ROOT.glob(pattern) if path.is_file()]
    archive(out / f"{name}.tar.gz", [(path, f"{name}/{_group(path)}/{path.name}") for path in files])


def _group(path: Path) -> str:
    return "dashboards" if path.parent.name == "json" else path.parent.name


def python_packages(out: Path) -> None:
    _run(sys.executable, "-m", "hatchling", "build", "-d", str(out))


def checksums(out: Path) -> None:
    files = sorted(path for path in out.iterdir() if path.is_file() and path.name != "SHA256SUMS")
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (out / "SHA256SUMS").write_text("".join(lines))


def _run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path, help="folder to write to; must be empty or new")
    parser.add_argument("--shiv", required=True, help="the shiv that makes the single file")
    parser.add_argument("--tag", help="the tag that is released: must be v and the version")
    given = parser.parse_args()
    out: Path = given.out.resolve()
    wrong = disagreements(version())
    if given.tag:
        wrong += undated()
    if given.tag and given.tag != f"v{version()}":
        wrong.append(f"the tag is {given.tag}, the version {version()}")
    if out.exists() and any(out.iterdir()):
        wrong.append(f"{out} is not empty")
    if wrong:
        parser.error("; ".join(wrong))
    out.mkdir(parents=True, exist_ok=True)
    python_packages(out)
    (wheel,) = out.glob("*.whl")
    _run(sys.executable, "deploy/package/build.py", str(out), "--shiv", given.shiv, "--wheel", str(wheel))
    chart(out)
    monitoring(out)
    checksums(out)
    for path in sorted(out.iterdir()):
        sys.stdout.write(f"{path.stat().st_size / 1e6:8.2f} MB  {path.name}\n")


if __name__ == "__main__":
    main()
