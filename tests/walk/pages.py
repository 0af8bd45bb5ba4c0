"""`make walk-pages`: the shell blocks of the user pages, word for word and in their order, in bare machines.

Each page has a machine and a network of its own; only its `setup` reaches the registries. A block fails the walk if its
status is not 0 or its output lacks what the page says one sees. Needs root and debootstrap.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.walk.blocks import Page, listed, written
from tests.walk.installs import ENVIRONMENT, HOME, PLACE, YES
from tests.walk.machines import ROOT, base, clone, fresh

_TOOLS = ROOT / ".cache/prometheus/unpacked/usr/bin"
_SETUP = """
apt-get update -q && apt-get install -y -q --no-install-recommends curl python3-venv
python3 -m venv /opt/venv && export PATH=/opt/venv/bin:/usr/local/bin:$PATH
pip install -q .
pip download -q -d /srv/wheels . 'hatchling>=1.27' editables
"""
"""What the machine needs to run the blocks without the registries."""
_DEMO_SETUP = (
    "make demo >/tmp/demo & until grep -q 'Ctrl-C ends' /tmp/demo; do sleep 1; done; kill $! ; wait $! || true\n"
)
_BEGIN = """
set -eu -o pipefail
export PATH=/opt/venv/bin:/usr/local/bin:$PATH PIP_NO_INDEX=1 PIP_FIND_LINKS=/srv/wheels EDITOR=true
server=
stop() { [ -z "$server" ] || { kill "$server"; wait "$server" || true; }; server=; }
serve() {
  stop
  bash -c "exec $1" & server=$!
  until curl -sf localhost:9836/metrics | grep -qE '^gpu_(workload_gpu_seconds_total|exporter_driver_error)'; do
    kill -0 "$server"
    sleep 0.2
  done
}
patient() { # a block that reads a series may come before the first cycle with it
  for _ in $(seq 60); do bash -c "set -o pipefail; $1" && return 0; sleep 1; done
  return 1
}
trap stop EXIT
"""
_DEMO = """
python3 -u -m deploy.demo.demo >/tmp/demo & server=$!
until grep -q 'Ctrl-C ends' /tmp/demo; do kill -0 "$server"; sleep 0.2; done
export PROMETHEUS=$(sed -n 's| *\\(http://[^/]*\\)/graph .*Prometheus$|\\1|p' /tmp/demo)
patient "gpu-exporter report --prometheus.url $PROMETHEUS --all --since 1h >/dev/null"
"""


def script(path: str, page: Page) -> str:
    """Return the shell that runs the blocks of a page, with a line of its own before the output of each."""
    said = [_BEGIN, _DEMO if page.demo else "", page.before, "\n"]
    for number, (text, row) in enumerate(zip(written(path), page.blocks, strict=True)):
        if row.runs not in {"bare", "serve"}:
            continue
        for name, stand_in in page.names.items():
            text = text.replace(name, stand_in)  # noqa: PLW2901 - the text of this reader
        said.append(f"echo '== {number}'\n")
        text = f"set +e\n{text}\nset -e\n" if "$?" in text else text  # noqa: PLW2901 - as a reader's shell goes on
        quoted = "'" + text.strip().replace("'", "'\\''") + "'"
        said.append(f"serve {quoted}\n" if row.runs == "serve" else f"patient {quoted}\n" if "curl" in text else text)
    return "".join(said)


def walk(folder: Path, suite: str, path: str, page: Page) -> int:
    """Return how many blocks of the page were run."""
    with fresh(base(folder, suite)) as inside:
        (inside / "etc/apt/apt.conf.d/99walk").write_text(YES)
        (inside / "etc/hosts").write_text("127.0.0.1 localhost\n")
        clone(inside, PLACE, "root")
        for name in ("promtool", "amtool"):
            subprocess.run(["cp", "-L", _TOOLS / name, inside / "usr/local/bin"], check=True)
        _run(inside, f"set -eu; {_SETUP}{_DEMO_SETUP if page.demo else ''}{page.setup}")
        output = _run(inside, script(path, page), alone=True)
    outputs = dict(re.findall(r"^== (\d+)\n(.*?)(?=^== \d|\Z)", output, re.DOTALL | re.MULTILINE))
    for number, row in enumerate(page.blocks):
        if row.sees:
            assert re.search(row.sees, outputs[str(number)]), f"{path}: {row.starts}: {outputs[str(number)]}"
    return len(outputs)


def _run(inside: Path, text: str, *, alone: bool = False) -> str:
    words = ["chroot", str(inside), *ENVIRONMENT, "bash", "-c", f"cd {HOME}\n{text}"]
    if alone:
        words = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *words]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, f"{done.returncode}: {done.stdout[-4000:]}"
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the machines are, or are to be made")
    parser.add_argument("--suite", default="bookworm", help="the system (%(default)s)")
    parser.add_argument("--page", action="append", help="all when left out")
    given = parser.parse_args()
    if os.getuid():
        parser.error("needs root")
    given.folder.mkdir(parents=True, exist_ok=True)
    for path, page in listed().items():
        if any(row.runs in {"bare", "serve"} for row in page.blocks) and (not given.page or path in given.page):
            count = walk(given.folder.resolve(), given.suite, path, page)
            sys.stdout.write(f"{path}: {count} of {len(page.blocks)} blocks ran\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
