"""Record the tour of the demo as a GIF: `python .ci/docs/recording.py docs/images/demo.gif`, with `make demo` running.

Chromium draws each page. The first page of the demo lists the tour.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from html import unescape
from pathlib import Path
from urllib.parse import urljoin
from urllib.request import urlopen

from PIL import Image

FIRST = "http://127.0.0.1:8080/"
SIZE = (1300, 760)
SHOWN_MILLISECONDS = 3500
COLOURS = 96


def tour() -> list[str]:
    """Return the address of the first page and of each stop of its tour but the query in Prometheus."""
    with urlopen(FIRST, timeout=10) as answer:
        page = answer.read().decode()
    stops = re.search(r'<ol class="tour">(.*?)</ol>', page, re.DOTALL)
    if not stops:
        raise SystemExit(f"{FIRST} shows no tour: start `make demo` first")
    links = [urljoin(FIRST, unescape(link)) for link in re.findall(r'href="([^"]+)"', stops[1])]
    return [FIRST, *(link for link in links if "g0.expr" not in link)]


def picture(url: str, file: Path) -> Image.Image:
    size = f"--window-size={SIZE[0]},{SIZE[1]}"
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", size]
    subprocess.run([*command, f"--screenshot={file}", url], check=True, capture_output=True)
    return Image.open(file).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        frames = [picture(url, Path(folder, f"{number}.png")) for number, url in enumerate(tour())]
    frames[0].save(
        target, save_all=True, append_images=frames[1:], duration=SHOWN_MILLISECONDS, loop=0, optimize=True
    )  # fmt: skip
    sys.stdout.write(f"{target}: {len(frames)} pages, {target.stat().st_size / 1024:.0f} KiB\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
