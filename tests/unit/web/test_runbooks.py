"""The runbooks that the exporter serves: whole pages, from a fixed list of names."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest

from exporter import REPOSITORY
from exporter.faults.rules import RULES, runbooks_of
from exporter.web import runbooks
from exporter.web.app import App, RouteHandlers
from exporter.web.config import WebConfig

ROOT = Path(__file__).resolve().parents[3]
NAMES = sorted(path.stem for path in (ROOT / "docs/runbooks").glob("*.md"))
VOID = {"meta", "link", "br", "hr"}
APP = App(RouteHandlers(metrics=lambda _: ("text/plain", b""), status=str, ready=str), "/metrics")


class Page(HTMLParser):
    """The text and the links of a page; fails where elements are not closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.words = ""
        self.open: list[str] = []
        self.comments: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name == "href" and tag == "a"]
        self.open += [] if tag in VOID else [tag]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += "" if set(self.open) & {"code", "style", "pre"} else data

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def get(path: str) -> tuple[str, str]:
    answer = APP.respond({"REQUEST_METHOD": "GET", "PATH_INFO": path})
    return answer.status, answer.body.decode()


@pytest.mark.parametrize("name", NAMES)
def test_runbook_is_html_without_markdown_or_comments_of_generators(name: str) -> None:
    status, html = get(f"/runbooks/{name}")
    page = Page(html)

    assert status == "200 OK"
    assert page.comments == []
    assert not re.search(r"\*\*|^#|`|\]\(|^\|", page.words, re.MULTILINE)
    assert "<strong>Fix first</strong>" in html
    assert "<details><summary>" in html
    assert "<details open" not in html


@pytest.mark.parametrize("name", ["", *NAMES])
def test_links_lead_to_served_pages_or_to_files_of_the_repository(name: str) -> None:
    for link in Page(get(f"/runbooks/{name}")[1]).links:
        path = urljoin(f"/runbooks/{name}", link)
        if path.startswith("https://docs.nvidia.com/"):
            continue
        if path.startswith(f"{REPOSITORY}/blob/main/"):
            assert (ROOT / urlsplit(path.removeprefix(f"{REPOSITORY}/blob/main/")).path).is_file()
        else:
            assert path == "/" or get(path)[0] == "200 OK", link


def test_list_has_every_runbook() -> None:
    status, html = get("/runbooks/")

    assert status == "200 OK"
    assert [link for link in Page(html).links if link.startswith("gpu")] == NAMES


@pytest.mark.parametrize(
    "name",
    [
        "gpunone",
        "GpuLost",
        "gpulost.md",
        "gpulost/",
        "../app.py",
        "..",
        "/etc/passwd",
        "%2e%2e/app.py",
        "runbooks.json",
    ],
)
def test_name_that_is_not_in_the_list_is_not_found(name: str) -> None:
    assert get(f"/runbooks/{name}") == ("404 Not Found", "not found\n")


def test_status_page_links_to_runbooks_that_are_served() -> None:
    for name in {page for rule in RULES for page in runbooks_of(rule.name)}:
        assert get(WebConfig().runbook_url.replace("{name}", name))[0] == "200 OK"


def test_title_of_a_page_is_the_name_of_its_alert() -> None:
    assert "<title>GpuLost</title>" in runbooks.page("gpulost")
    assert runbooks.page("gpunone") == ""
