"""Hooks of mkdocs: patterns in the navigation, a list of the runbooks, and links out of docs/ and to folders."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

_LINK = re.compile(r"(\]\()(?!https?://|mailto:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
_RUNBOOKS = "runbooks/index.md"


def on_config(config: Any) -> Any:
    """Replace each pattern of the navigation, such as `runbooks/*.md`, by the matching pages that it does not name."""
    config["nav"] = _expanded(config["nav"], Path(config["docs_dir"]), set(_named(config["nav"])))
    return config


def _named(nav: list[Any]) -> Iterator[str]:
    """Yield the pages that the navigation names."""
    for entry in nav:
        if isinstance(entry, dict):
            for value in entry.values():
                yield from _named(value if isinstance(value, list) else [value])
        else:
            yield entry


def _expanded(nav: list[Any], docs: Path, named: AbstractSet[str]) -> list[Any]:
    """Return the navigation with its patterns replaced, in the order of the file names."""
    entries: list[Any] = []
    for entry in nav:
        if isinstance(entry, dict):
            entries += [{title: _expanded(v, docs, named) if isinstance(v, list) else v} for title, v in entry.items()]
        elif "*" in entry:
            entries += sorted({str(path.relative_to(docs)) for path in docs.glob(entry)} - named)
        else:
            entries.append(entry)
    return entries


def on_files(files: Any, config: Any) -> Any:
    """Add a page that lists the runbooks."""
    lines = ["# Runbooks", "", "For on-call engineers: one page per alert, with the fix first.", ""]
    for path in sorted(Path(config["docs_dir"]).glob("runbooks/*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{title}]({path.name})")
    files.append(File.generated(config, _RUNBOOKS, content="\n".join(lines)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return the page with links that GitHub follows and mkdocs does not: out of docs/, and to a folder."""
    del files
    root = Path(config["docs_dir"]).parent
    folder = posixpath.dirname(posixpath.join("docs", page.file.src_uri))

    def resolved(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[2]))
        is_folder = (root / target).is_dir()
        anchor = match[3] or ""
        if is_folder and target.startswith("docs/"):
            index = "README.md" if (root / target / "README.md").exists() else "index.md"
            return f"{match[1]}{posixpath.relpath(posixpath.join(target, index), folder)}{anchor}"
        if target.startswith("docs/") or not (root / target).exists():
            return match[0]
        return f"{match[1]}{config['repo_url']}/{'tree' if is_folder else 'blob'}/main/{target}{anchor}"

    return _LINK.sub(resolved, markdown)
