"""All artefacts of a release are built; packages install into their own root, run there and leave nothing behind."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import rpmfile

from helm import pack

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "deploy/release/build.sh"
PYTHON = ROOT / ".cache/package/bin/python"
RPMFILE_NOREPLACE = 1 << 4
CHECK = ("check", "--simulate", "2xH200", "--format", "json")

pytestmark = pytest.mark.xdist_group("packages")  # they are built once


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run([BUILD, out], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    yield out
    shutil.rmtree(out)


def bare(**more: str) -> dict[str, str]:
    """An environment with nothing of this checkout in it."""
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **more}


def verdict(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [*command, *CHECK], env=bare(**environment), cwd="/", capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    found: str = json.loads(done.stdout)["verdict"]
    return found


def dpkg(root: Path, *arguments: str | Path) -> None:
    """Dpkg on a root of its own; scripts run outside of it, as they must where it has no shell."""
    options = ("--force-depends", "--force-script-chrootless", "--no-debsig", f"--root={root}", f"--log={root}.log")
    done = subprocess.run(["dpkg", *options, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_debian_package_installs_runs_and_leaves_nothing(built: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "var/lib/dpkg/updates").mkdir(parents=True)
    (root / "var/lib/dpkg/info").mkdir()
    (root / "var/lib/dpkg/status").touch()
    (root / "etc").mkdir()
    (package,) = built.glob("*.deb")

    dpkg(root, "-i", package)
    assert "gpu-exporter" in (root / "etc/passwd").read_text()
    assert (root / "run/gpu-exporter/jobs").is_dir()
    assert (root / "usr/lib/gpu-exporter/slurm/prolog.d/gpu-exporter").stat().st_mode & 0o777 == 0o755
    assert verdict(sys.executable, "-I", root / "usr/bin/gpu-exporter") == "ok"

    (root / "etc/default/gpu-exporter").write_text("# changed\n")
    hooks = [root / f"etc/slurm/{hook}.d/gpu-exporter" for hook in ("prolog", "epilog")]
    for hook in hooks:
        hook.parent.mkdir(parents=True)
        hook.symlink_to(f"/{hook.parent.name}".join(("/usr/lib/gpu-exporter/slurm", "/gpu-exporter")))
    dpkg(root, "-r", "gpu-exporter")
    assert not (root / "usr/lib/gpu-exporter").exists()
    assert (root / "etc/default/gpu-exporter").exists()
    assert [hook.is_symlink() or subprocess.run([hook], check=False).returncode for hook in hooks] == [0, 0]
    for hook in hooks:
        hook.unlink()
    dpkg(root, "-P", "gpu-exporter")
    left = [path for path in root.rglob("*gpu-exporter*") if "/var/" not in str(path)]
    assert left == []


@pytest.mark.parametrize("home", ["home", "nowhere"])
def test_single_file_needs_only_python(built: Path, tmp_path: Path, home: str) -> None:
    (single,) = built.glob("*.pyz")
    (tmp_path / "home").mkdir()

    assert verdict(sys.executable, "-I", single, HOME=str(tmp_path / home), TMPDIR=str(tmp_path)) == "ok"
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert (tmp_path / "home/.shiv").is_dir() == (home == "home")


def test_tree_fits_every_python(built: Path) -> None:
    (package,) = built.glob("*.deb")
    listed = subprocess.run(["dpkg-deb", "-c", package], capture_output=True, text=True, check=True).stdout

    assert ".cpython-" not in listed
    assert "_bcrypt.abi3.so" in listed


def test_rpm_holds_the_files_of_the_debian_package_with_their_modes(built: Path) -> None:
    (package,), (rpm,) = built.glob("*.deb"), built.glob("*.rpm")
    packed = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as content:
        expected = {(entry.name, entry.mode) for entry in content if entry.isfile()}
    with rpmfile.open(rpm) as content:
        headers = content.headers
        files = {(entry.name, stat.S_IMODE(entry.mode)) for entry in content.getmembers() if not entry.isdir}

    assert files == expected
    folders = [headers["dirnames"][index].decode() for index in headers["dirindexes"]]
    noreplace = {
        folder + name.decode()
        for folder, name, flags in zip(folders, headers["basenames"], headers["fileflags"], strict=True)
        if flags & RPMFILE_NOREPLACE
    }
    assert noreplace == {f"/etc/default/gpu-exporter{part}" for part in ("", "-accounting", "-check", "-report")}


def test_rpm_needs_a_python_that_runs_it_and_compiles_after_an_upgrade(built: Path) -> None:
    """%preun of the old package deletes compiled files, and it runs after %post of the new one."""
    (rpm,) = built.glob("*.rpm")
    with rpmfile.open(rpm) as content:
        headers = content.headers

    assert b"(python3 >= 3.10 or python3.11 or python3.12 or python3.13)" in headers["requirename"]
    assert b"compileall" in headers["posttrans"]
    assert "postin" not in headers


def test_what_an_operator_needs_beside_the_program_is_in_the_package(built: Path) -> None:
    (package,) = built.glob("*.deb")
    listed = subprocess.run(["dpkg-deb", "-c", package], capture_output=True, text=True, check=True).stdout

    for wanted in (
        "./etc/gpu-exporter/\n",
        "share/gpu-exporter/rules/gpu-alerts.yaml",
        "share/gpu-exporter/rules/gpu-recording.yaml",
        "share/gpu-exporter/dashboards/fleet.json",
        "share/gpu-exporter/alertmanager/gpu.tmpl",
        "share/gpu-exporter/config.schema.json",
        "share/man/man1/gpu-exporter.1.gz",
        "share/man/man1/gpu-exporter-check.1.gz",
        "share/doc/gpu-exporter/changelog.gz",
        "share/doc/gpu-exporter/runbooks/gpulost.md",
        "lib/gpu-exporter/python/exporter/web/runbooks.json",
        "share/bash-completion/completions/gpu-exporter",
    ):
        assert wanted in listed


def test_monitoring_archive_has_rules_for_every_way_to_load_them(built: Path) -> None:
    (archive,) = built.glob("gpu-exporter-monitoring-*.tar.gz")
    with tarfile.open(archive) as content:
        names = {name.partition("/")[2] for name in content.getnames()}

    assert {"rules/gpu-alerts.yaml", "dashboards/fleet.json", "runbooks/gpulost.md"} <= names
    assert {"alertmanager/alertmanager.yaml", "kubernetes/monitoring.yaml"} <= names


SERVED = """\
import sys
from exporter.web.app import App, RouteHandlers
app = App(RouteHandlers(metrics=lambda _: ("text/plain", b""), status=str, ready=str), "/metrics")
for name in sys.argv[1:]:
    answer = app.respond({"REQUEST_METHOD": "GET", "PATH_INFO": f"/runbooks/{name}"})
    print(answer.status, "<h1>Gpu" in answer.body.decode())
"""


def test_installed_wheel_serves_every_runbook(built: Path, tmp_path: Path) -> None:
    names = sorted(path.stem for path in (ROOT / "docs/runbooks").glob("*.md"))
    (wheel,) = built.glob("*.whl")
    shutil.unpack_archive(wheel, tmp_path, "zip")

    done = subprocess.run(
        [sys.executable, "-c", SERVED, *names],
        env=bare(PYTHONPATH=str(tmp_path)), cwd="/", capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.stderr == ""
    assert done.stdout.splitlines() == ["200 OK True"] * len(names)


def test_compiled_parts_run_with_the_oldest_c_library_that_is_supported(built: Path, tmp_path: Path) -> None:
    """Enterprise Linux 8 has glibc 2.28."""
    (package,) = built.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", package, tmp_path], check=True)
    compiled = list(tmp_path.rglob("*.so"))
    assert compiled
    for library in compiled:
        found = re.findall(rb"GLIBC_(\d+)\.(\d+)", library.read_bytes())
        assert max((int(major), int(minor)) for major, minor in found) <= (2, 28), library


def test_the_checksums_fit(built: Path) -> None:
    done = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=built, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count(": OK") == len(list(built.iterdir())) - 1


def test_the_wheel_runs(built: Path, tmp_path: Path) -> None:
    """Its dependencies are those of this checkout's environment."""
    (wheel,) = built.glob("*.whl")
    install = [PYTHON, "-m", "pip", "install", "-q", "--no-deps", "--target", tmp_path, wheel]
    subprocess.run(install, check=True)
    dependencies = next(path for path in sys.path if path.endswith("site-packages"))
    assert verdict(sys.executable, "-m", "exporter", PYTHONPATH=f"{tmp_path}:{dependencies}") == "ok"


def test_the_chart_archive_is_what_helm_reads(built: Path) -> None:
    (chart,) = built.glob("*.tgz")
    with tarfile.open(chart) as archive:
        names = [entry.name for entry in archive if entry.isfile()]
    assert {"gpu-exporter/Chart.yaml", "gpu-exporter/values.yaml", "gpu-exporter/values.schema.json"} <= set(names)
    assert all(name.startswith("gpu-exporter/") for name in names)
    assert {f"gpu-exporter/{path}" for path in pack.files()} <= set(names)
    assert "gpu-exporter/templates/tests/scrape.yaml" in names


def test_a_tag_that_is_not_the_version_is_refused(tmp_path: Path) -> None:
    done = subprocess.run([BUILD, tmp_path / "out", "v99.0.0"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "the tag is v99.0.0, the version " in done.stderr
    assert ("with no day" in done.stderr) == ("(unreleased)" in (ROOT / "CHANGELOG.md").read_text())
    assert not (tmp_path / "out").exists()
