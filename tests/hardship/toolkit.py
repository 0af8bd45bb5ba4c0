"""exporter-toolkit's own sample files, from its Go module: `python -m tests.hardship.toolkit FOLDER`.

The folder is the module's `web/testdata`, which is never committed. A line for each file: its name, and the refusal.
Ends with status 1 if a good file is refused, or a bad one taken, beyond those of `DIFFERENT`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from exporter.config.option import ConfigError
from exporter.web.settings import load
from exporter.web.tls import context

DIFFERENT = {
    "web_config_noAuth_noHTTP2Cipher.bad": "HTTP/2 is not served, so no cipher of it is needed",
    "web_config_auth_clientCAs_missing.bad": "the same as noAuth.good.blocking: the system's authorities",
    "web_config_auth_client_san.bad": "the file is good, and the certificate of the toolkit's test is not",
}
"""Files that are taken or refused otherwise than their name says, and why."""


def refusal(file: Path) -> str:
    """Return the line that refuses the file; empty if it is taken."""
    try:
        web = load(file)
        if web.tls:
            context(web.tls)
    except ConfigError as error:
        return str(error).replace(str(file), file.name)
    return ""


def main(folder: Path) -> int:
    files = sorted(file for file in folder.iterdir() if file.suffix in {".yml", ".yaml"})
    wrong = 0
    for file in files:
        refused, bad = refusal(file), ".bad" in file.name or "junk" in file.name
        named = ".good" in file.name or bad
        other = named and bool(refused) != bad
        wrong += other != (file.stem in DIFFERENT)
        why = f"  ({DIFFERENT[file.stem]})" if file.stem in DIFFERENT else ""
        sys.stdout.write(f"{'refused' if refused else 'taken':8} {file.name}  {refused}{why}\n")
    sys.stdout.write(f"{len(files)} files, {wrong} otherwise than named\n")
    return 1 if wrong or not files else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
