"""Pages and Markdown: what users call their jobs is text there, each character of which may stand in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from exporter.tools.report import formats
from exporter.tools.report.document import Bar, Bars, Document, Facts, Heading, Paragraph, Steps, Table

NAME = "a\x1b[2J\r\nb\x07\u202e<i>"
"""Clears the screen, ends the line, rings, turns what follows around, and is markup."""
BLOCKS = (
    Heading(NAME),
    Facts(((NAME, NAME),)),
    Bars((Bar(NAME, NAME, 0.5, "good", "#000000"),)),
    Table(("Job", f">{NAME}"), ((NAME, NAME),)),
    Steps(((NAME, NAME),)),
    Paragraph(NAME),
)


@pytest.mark.parametrize(
    ("render", "shown", "places"),
    [
        (formats.render_markdown, r"a\\x1b\[2J\\r\\nb\\x07\\u202e\<i\>", 12),
        (formats.render_html, r"a\x1b[2J\r\nb\x07\u202e&lt;i&gt;", 13),
    ],
    ids=("markdown", "html"),
)
def test_names_command_nothing_wherever_they_stand(render: Callable[[Document], str], shown: str, places: int) -> None:
    text = render(Document(NAME, BLOCKS))

    assert text.replace("\n", "").isprintable()
    assert text.count(shown) == places
    assert "<i>" not in text


def test_a_name_of_any_script_stays_as_it_is() -> None:
    assert formats.render_markdown(Document("größe 训练 🚀", ())) == "# größe 训练 🚀\n"
    assert "<h1>größe 训练 🚀</h1>" in formats.render_html(Document("größe 训练 🚀", ()))
