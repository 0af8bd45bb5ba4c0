"""`make walk-installs`: the README's install lines, word for word, on bare machines, with what this checkout builds.

A Debian and an Ubuntu made by debootstrap, each install in a fresh overlay of one: the Debian package by apt, the RPM
by dnf, pip from the checkout, the wheel and the source archive, the single file, the archives of chart, rules and
dashboards. What is installed runs, serves and goes again. Needs root and debootstrap.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import helm_python
import yaml

from tests.readme import alternative, line
from tests.stack import program
from tests.walk.machines import ROOT, TRUST, base, clone, fresh

PLACE = "/srv"
HOME = f"{PLACE}/gpu-exporter"
ENVIRONMENT = (
    "env",
    "-i",
    "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG=C.UTF-8",
    f"HOME={PLACE}",
    "DEBIAN_FRONTEND=noninteractive",
    *(f"{name}={value}" for name, value in TRUST.items()),
)
YES = 'APT::Get::Assume-Yes "true";\n'
STAND_IN = """\
Name: python3
Version: 3.11
Release: 1
Summary: The Python and the shell of this machine, for dnf to know
License: none
BuildArch: noarch
Provides: /bin/sh
%description
%files
"""
# Runs a command that serves, as long as it takes to read its pages.
SERVED = """\
import os, signal, subprocess, sys, time, urllib.request
child = subprocess.Popen(sys.argv[1], shell=True, start_new_session=True)
deadline = time.monotonic() + 60
page = lambda path: urllib.request.urlopen("http://127.0.0.1:9836" + path, timeout=5).read().decode()
try:
    while True:
        try:
            metrics, status = page("/metrics"), page("/")
            if "gpu_exporter_build_info{" not in metrics: raise OSError("no cycle has ended yet")
            break
        except OSError:
            if child.poll() is not None or time.monotonic() > deadline: raise
            time.sleep(0.2)
finally:
    os.killpg(child.pid, signal.SIGTERM)
    child.wait(20)
print(metrics.count("\\ngpu_info{"), "gpu_exporter_build_info{" in metrics, "<title>" in status)
"""


def run(inside: Path, command: str, *, alone: bool = False) -> str:
    """What a shell line in the checkout of that machine says; AssertionError with it where it fails."""
    words = ["chroot", str(inside), *ENVIRONMENT, "bash", "-c", f"cd {HOME} && {command}"]
    if alone:  # in a network of its own: the port is the README's
        words = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *words]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.returncode}: {done.stdout}"
    return done.stdout


def prepared(inside: Path, dist: Path) -> None:
    (inside / "etc/apt/apt.conf.d/99walk").write_text(YES)
    clone(inside, PLACE, "root")
    subprocess.run(["cp", "-a", dist, inside / f"{HOME[1:]}/dist"], check=True)
    (inside / "tmp/served.py").write_text(SERVED)


def serves(inside: Path, command: str, *, gpus: int, before: str = "true") -> None:
    said = run(inside, f"{before} && python3 /tmp/served.py '{command}'", alone=True).splitlines()[-1]
    assert said == f"{gpus} True True", said


def works(inside: Path) -> None:
    """What the README calls once it is installed."""
    assert "no NVIDIA GPU in this node" in run(inside, line("gpu-exporter check"))
    assert json.loads(run(inside, "gpu-exporter check --simulate 2xH200 --format json"))["verdict"] == "ok"
    serves(inside, "gpu-exporter", gpus=0)


def leftovers(inside: Path) -> list[str]:
    found = run(
        inside,
        f"find / -xdev -name '*gpu-exporter*' -not -path '{PLACE}/*' -not -path '/home/*' -not -path '/var/lib/dpkg/*'",
    )
    return [path for path in found.splitlines() if not path.startswith(("/var/lib/dnf", "/var/cache", "/var/log"))]


def debian_package(inside: Path) -> None:
    run(inside, line("apt install"))
    works(inside)
    assert "0.1" in run(inside, "zcat /usr/share/doc/gpu-exporter/changelog.gz")
    run(inside, "apt purge gpu-exporter")
    left = leftovers(inside)
    assert left == [], left


def rpm_package(inside: Path) -> None:
    """By the dnf that Debian has; its database holds a stand-in for this machine's Python and shell."""
    run(inside, "apt update && apt install --no-install-recommends dnf rpm")
    (inside / "tmp/python3.spec").write_text(STAND_IN)
    run(inside, "rpmbuild -bb --quiet --define '_rpmdir /tmp' /tmp/python3.spec")
    run(inside, "dnf -y install /tmp/noarch/python3-3.11-1.noarch.rpm")
    asked = alternative("apt install").replace("dnf ", "dnf -y ", 1)
    assert "nothing provides" not in run(inside, asked)
    works(inside)
    run(inside, "dnf -y remove gpu-exporter")
    left = leftovers(inside)
    assert left == [], left


def pip(inside: Path) -> None:
    run(inside, "apt update && apt install --no-install-recommends python3-venv")
    environment = line("python3 -m venv")
    run(inside, f"{environment} && {line('pip install')}")
    for command, gpus in (("gpu-exporter", 0), (line("gpu-exporter --simulate"), 8)):
        serves(inside, command, gpus=gpus, before=environment)
    for archive in ("*.whl", "gpu_exporter-*.tar.gz"):
        run(inside, f"python3 -m venv --clear other && other/bin/pip install dist/{archive}")
        assert "ok" in run(inside, "other/bin/gpu-exporter check --simulate 2xH200")


def single_file(inside: Path) -> None:
    command = line("python3 dist/gpu-exporter")
    assert "no NVIDIA GPU in this node" in run(inside, command)
    assert "gpu_info{" in run(inside, command.replace(" check", " once --simulate 2xH200"))


def archives(dist: Path) -> None:
    """The chart renders, the rules load, the dashboards are JSON."""
    (chart,), (monitoring,) = dist.glob("gpu-exporter-[0-9]*.tgz"), dist.glob("gpu-exporter-monitoring-*.tar.gz")
    with helm_python.Chart.load(str(chart)) as loaded:
        files = loaded.render({"dashboards": {"enabled": True}}, name="rel", namespace="mon")
    assert "kind: DaemonSet" in "".join(files.values())
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(monitoring) as content:
            content.extractall(scratch, filter="data")
        rules = sorted(Path(scratch).glob("*/rules/*.yaml"))
        subprocess.run([program("promtool"), "check", "rules", *rules], check=True, stdout=subprocess.DEVNULL)
        (objects,) = Path(scratch).glob("*/kubernetes/monitoring.yaml")
        kinds = [each["kind"] for each in yaml.safe_load_all(objects.read_text())]
        assert {"ServiceMonitor", "PrometheusRule"} == set(kinds)
        assert all(json.loads(path.read_text())["uid"] for path in Path(scratch).glob("*/dashboards/*.json"))
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=dist, check=True)


EACH: Mapping[str, Callable[[Path], None]] = {
    "Debian package": debian_package,
    "RPM": rpm_package,
    "pip, wheel, source archive": pip,
    "single file": single_file,
}
RPM_ON = "bookworm"
"""Ubuntu has no dnf that knows RPM's database without more."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the machines are, or are to be made")
    parser.add_argument("--suite", action="append", choices=("bookworm", "noble"), help="both when left out")
    parser.add_argument("--dist", type=Path, help="what `make release` made; made anew when left out")
    given = parser.parse_args()
    if os.getuid():
        parser.error("needs root")
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        dist: Path = given.dist or Path(scratch) / "dist"
        if not given.dist:
            subprocess.run([ROOT / "deploy/release/build.sh", dist], check=True)
        archives(dist)
        tell("chart, rules, dashboards, checksums: as they should be")
        for suite in given.suite or ("bookworm", "noble"):
            walk(given.folder.resolve(), suite, dist)


def walk(folder: Path, suite: str, dist: Path) -> None:
    for name, install in EACH.items():
        if install is rpm_package and suite != RPM_ON:
            continue
        with fresh(base(folder, suite)) as inside:
            prepared(inside, dist)
            install(inside)
        tell(f"{suite}: {name}: installed, ran, gone")


def tell(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
