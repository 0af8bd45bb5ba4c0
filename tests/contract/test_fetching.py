"""What the set-up of the tests and the demo finds from an earlier one is made good, not stumbled over."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / ".ci/make/fetch-prometheus.sh"
PROGRAMS = ("prometheus", "promtool", "alertmanager", "amtool")


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """Where the four programs are installed: nothing is fetched."""
    folder = tmp_path / "usr/bin"
    folder.mkdir(parents=True)
    for name in PROGRAMS:
        (folder / name).write_text(f"#!/bin/sh\necho '{name}, version 2.53.0'\n")
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}", "WITHOUT_SECOND": "1"}


def older_script(cache: Path) -> None:
    (cache / "unpacked/usr/bin").mkdir(parents=True)
    (cache / "bin/prometheus").write_text("#!/bin/sh\nexit 1\n")


def other_layout(cache: Path) -> None:
    older_script(cache)
    (cache / "layout").write_text("1\n")


def gone_from_the_machine(cache: Path) -> None:
    for name in PROGRAMS:
        (cache / "bin" / name).symlink_to(f"/nonexistent/{name}")


@pytest.mark.parametrize("earlier", [older_script, other_layout, gone_from_the_machine])
def test_what_an_earlier_set_up_left_is_made_anew(
    earlier: Callable[[Path], None], machine: dict[str, str], tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    (cache / "bin").mkdir(parents=True)
    earlier(cache)

    done = subprocess.run([SCRIPT, cache], env=machine, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert {path.name: str(path.readlink()) for path in (cache / "bin").iterdir()} == {
        name: f"{tmp_path}/usr/bin/{name}" for name in PROGRAMS
    }


# apt and dpkg over a listing of releases: RELEASE -> PACKAGE -> its version, dependencies and programs.
# The first release is the machine's own; a list of sources names another one. /var/lib/apt/lists is empty.
FAKE_APT = """\
#!{python}
import json, os, pathlib, re, sys

name, arguments = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
options, words = [], []
while arguments:
    word = arguments.pop(0)
    if word == "-o":
        options.append(arguments.pop(0))
    elif word[:1] != "-" or name == "dpkg-deb":
        words.append(word)
sources = [value.partition("=")[2] for value in options if value.startswith("Dir::Etc::SourceList=")]
listing = json.loads(os.environ["LISTING"])
own = next(iter(listing))
packages = listing[re.search("deb [^ ]+ ([a-z]+) ", open(sources[-1]).read())[1] if sources else own]
if not any(value.startswith("Dir::State::Lists=") for value in options):
    packages = {{}}
if name == "dpkg-deb":
    archive = json.loads(open(words[1]).read())
    for program in archive["programs"]:
        path = pathlib.Path(words[2], "usr/bin", program)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\\necho version " + archive["version"] + "\\n")
        path.chmod(0o755)
    for page in archive["pages"]:
        path = pathlib.Path(words[2], page)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("<html><head></head></html>")
elif words[0] == "indextargets":
    if "Codename: " + own in words and packages:
        print("deb http://mirror.example/ubuntu/", own, "universe")
elif words[0] == "show":
    sys.exit(print("Version:", packages[words[1]]["version"]) if words[1] in packages else 100)
elif words[0] == "depends":
    print(words[1], *("  Depends: " + each for each in packages[words[1]]["depends"]), sep="\\n")
elif words[0] == "download":
    for each in words[1:]:
        if each not in packages:
            sys.exit("E: Unable to locate package " + each)
        pathlib.Path(each + ".deb").write_text(json.dumps(packages[each]))
"""
Release = Mapping[str, Mapping[str, object]]
SETUP_TOOLS = (
    "bash", "basename", "cat", "chmod", "dirname", "env", "flock", "grep", "head", "id", "ln", "mkdir", "mktemp",
    "readlink", "rm", "sed", "sh", "sort",
)  # fmt: skip


NO_UI = "usr/share/prometheus/web/no-ui/index.html"
"""What Debian 13's Prometheus shows at /graph: that it has no pages but the classic ones."""


def package(
    version: str, programs: Sequence[str] = (), depends: Sequence[str] = (), pages: Sequence[str] = ()
) -> Mapping[str, object]:
    return {"version": version, "programs": programs, "depends": depends, "pages": pages}


def release(prometheus: str, *, split: bool) -> Release:
    """A release with this version of Prometheus, which has promtool as a package of its own if `split`."""
    depends = ["libc6", "libjs-jquery", *(["promtool"] if split else [])]
    packages = {
        "prometheus": package(
            prometheus, ["prometheus", *([] if split else ["promtool"])], depends, [NO_UI] if split else []
        ),
        "prometheus-alertmanager": package("0.28.1", ["prometheus-alertmanager", "amtool"]),
        "libjs-jquery": package("3.6"),
        "libjs-rickshaw": package("1.5", (), ["libjs-d3"]),
        "libjs-d3": package("3.5"),
    }
    return packages | ({"promtool": package(prometheus, ["promtool"])} if split else {})


@pytest.fixture
def fetch(tmp_path: Path) -> Callable[[Mapping[str, Release]], subprocess.CompletedProcess[str]]:
    """Runs the script in a checkout of a machine without Prometheus, where apt knows these releases."""
    path, checkout = tmp_path / "bin", tmp_path / "checkout"
    path.mkdir()
    for name in SETUP_TOOLS:
        (path / name).symlink_to(shutil.which(name) or name)
    for name in ("apt-get", "apt-cache", "dpkg-deb"):
        (path / name).write_text(FAKE_APT.format(python=Path(sys.executable).resolve()))
        (path / name).chmod(0o755)
    shutil.copytree(SCRIPT.parent, checkout / ".ci/make")

    def run(releases: Mapping[str, Release]) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(path), "WITHOUT_SECOND": "1", "LISTING": json.dumps(releases)}
        script = [checkout / ".ci/make" / SCRIPT.name, tmp_path / "cache"]
        return subprocess.run(script, env=environment, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize(
    ("releases", "version"),
    [
        ({"bookworm": release("2.42.0+ds-5+b5", split=False)}, "2.42.0+ds-5+b5"),
        ({"trixie": release("2.53.3+ds1-2", split=True)}, "2.53.3+ds1-2"),
        (
            {"jammy": release("2.31.2+ds1", split=False), "noble": release("2.45.3+ds-2", split=False)},
            "2.45.3+ds-2",
        ),
    ],
    ids=["promtool in Prometheus' package", "promtool in its own package", "Prometheus too old"],
)
def test_fetch_prometheus_unpacks_all_programs(
    releases: Mapping[str, Release],
    version: str,
    fetch: Callable[[Mapping[str, Release]], subprocess.CompletedProcess[str]],
    tmp_path: Path,
) -> None:
    done = fetch(releases)

    assert done.returncode == 0, done.stdout + done.stderr
    assert [name for name in PROGRAMS if not (tmp_path / "cache/bin" / name).exists()] == []
    assert f"version {version}" in done.stdout.splitlines()


def test_fetch_prometheus_without_its_modern_pages_opens_the_classic_ones(
    fetch: Callable[[Mapping[str, Release]], subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    fetch({"trixie": release("2.53.3+ds1-2", split=True)})

    page = (tmp_path / "cache/unpacked" / NO_UI).read_text()
    assert 'location.replace("/classic" + location.pathname + location.search)' in page


def test_fetch_prometheus_without_a_new_enough_package_names_the_version(
    fetch: Callable[[Mapping[str, Release]], subprocess.CompletedProcess[str]],
) -> None:
    done = fetch({"bullseye": release("2.24.1+ds-1", split=False)})

    assert done.returncode == 1
    assert done.stderr.splitlines() == ["prometheus 2.42 or newer is needed, apt has 2.24.1+ds-1"]


NEEDED = ("bash", "env", "dirname", "id", "sha256sum", "mkdir", "chmod", "rm")
# Fails at what it is not said to have, and knows of no packages to borrow.
PYTHON = """\
#!/bin/sh
case $2 in
  *version_info*) exit {too_old} ;;
  "import venv") exit {no_venv} ;;
esac
[ "$1" = -V ] && echo Python 3.8.10
exit 1
"""
FAULTS = [
    (None, "demo: Python is missing: install it with: apt-get install python3"),
    (PYTHON.format(too_old=1, no_venv=0), "demo: python3 is Python 3.8.10: 3.10 or newer is needed"),
    (
        PYTHON.format(too_old=0, no_venv=1),
        "demo: Python's venv is missing: install it with: apt-get install python3-venv",
    ),
    (
        PYTHON.format(too_old=0, no_venv=0),
        "demo: python3-venv is missing: install it with: apt-get install python3-venv",
    ),
]


@pytest.mark.parametrize(("python", "said"), FAULTS, ids=["no Python", "an old one", "no venv", "no pip, no apt"])
def test_the_demo_names_in_one_line_what_to_install(python: str | None, said: str, tmp_path: Path) -> None:
    checkout, path = tmp_path / "checkout", tmp_path / "bin"
    path.mkdir()
    for name in NEEDED:
        (path / name).symlink_to(shutil.which(name) or name)
    if python:
        (path / "python3").write_text(python)
        (path / "python3").chmod(0o755)
    (checkout / "deploy/container").mkdir(parents=True)
    (checkout / "deploy/container/requirements.txt").touch()
    shutil.copytree(SCRIPT.parent, checkout / ".ci/make")

    done = subprocess.run(
        [checkout / ".ci/make/demo.sh"], env={"PATH": str(path)}, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert done.stderr.splitlines() == [said]


PIP = SCRIPT.with_name("pip.sh")
UNTRUSTED = "SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"
UNTRUSTED_ADVICE = (
    "pip does not trust the certificate it is shown: behind a proxy that inspects TLS, set PIP_CERT and "
    "REQUESTS_CA_BUNDLE to the file of its CA"
)


@pytest.mark.parametrize(
    ("pip", "code", "said"),
    [
        (
            f'echo "WARNING: Retrying {UNTRUSTED}" >&2; echo "ERROR: No matching distribution" >&2; exit 1',
            1,
            [UNTRUSTED_ADVICE],
        ),
        ("echo no space left >&2; exit 2", 2, ["no space left"]),
        ("echo a warning >&2", 0, ["a warning"]),
    ],
    ids=["by certificate", "otherwise", "not at all"],
)
def test_pip_that_fails_says_what_to_set_for_a_certificate(
    pip: str, code: int, said: Sequence[str], tmp_path: Path
) -> None:
    program = tmp_path / "pip"
    program.write_text(f"#!/bin/sh\n{pip}\n")
    program.chmod(0o755)

    done = subprocess.run([PIP, program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr.splitlines()) == (code, said)


RUBY_APT = """
apt_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
apt_depends() { case $1 in ruby) echo ruby3.3 ;; *) echo libruby3.3 ;; esac; }
apt_download() { touch "$1/ruby3.3.deb"; }
dpkg-deb() {
  mkdir -p "$3/usr/bin" "$3/usr/lib/x86_64-linux-gnu" "$3/usr/lib/ruby/3.3.0"
  printf '#!/bin/sh\\necho "$RUBYLIB $*"\\n' >"$3/usr/bin/ruby3.3" && chmod 755 "$3/usr/bin/ruby3.3"
}
"""


def test_ruby_runs_in_a_checkout_whose_path_has_a_blank(tmp_path: Path) -> None:
    scripts = tmp_path / "a checkout/.ci/make"
    scripts.mkdir(parents=True)
    script = shutil.copy(SCRIPT.with_name("fetch-ruby.sh"), scripts)
    (scripts / "apt.sh").write_text(RUBY_APT)
    subprocess.run([script], check=True)
    ruby = tmp_path / "a checkout/.cache/ruby"

    said = subprocess.run([ruby / "ruby", "-e", "p 1"], capture_output=True, text=True, check=True).stdout

    libraries = f"{ruby}/usr/lib/ruby/3.3.0:{ruby}/usr/lib/x86_64-linux-gnu/ruby/3.3.0"
    assert said == f"{libraries} --disable-gems -e p 1\n"
