"""Draw a command's output on a terminal of 80 columns: `python .ci/docs/terminal.py docs/images/gpudash.png COMMAND`.

`script` gives the command a terminal, and chromium draws the colours.
"""

from __future__ import annotations

import html
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

COLUMNS, WIDTH, LINE_HEIGHT, MARGIN = 80, 700, 18, 14
BACKGROUND = "#0d1117"
STYLES = {
    "0": "",
    "1": "font-weight:bold",
    "2": "opacity:.6",
    "31": "color:#ff7b72",
    "32": "color:#56d364",
    "33": "color:#e3b341",
}
_COLOUR = re.compile(r"\x1b\[([0-9]+)m")


def page(text: str) -> str:
    """Return the HTML of a terminal with `text`."""
    spans = _COLOUR.sub(lambda found: f'</span><span style="{STYLES[found[1]]}">', html.escape(text))
    style = f"margin:0;padding:{MARGIN}px;color:#e6edf3;font:14px/{LINE_HEIGHT}px 'DejaVu Sans Mono'"
    body = f'<body style="margin:0;background:{BACKGROUND}">'
    return f'<meta charset="utf-8">{body}<pre style="{style}"><span>{spans}</span></pre>'


def main(file: str, *command: str) -> None:
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    terminal = ["script", "-qec", shlex.join(command), "/dev/null"]
    done = subprocess.run(terminal, env=environment, capture_output=True, text=True, check=True)
    shown = done.stdout.replace("\r", "")
    height = LINE_HEIGHT * len(shown.splitlines()) + 2 * MARGIN
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "terminal.html")
        source.write_text(page(shown))
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--window-size={WIDTH},{height}",
        ]
        browser = ["chromium", *options, f"--screenshot={Path(file).resolve()}", source.as_uri()]
        subprocess.run(browser, check=True, capture_output=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
