"""Text for a terminal: what users call their jobs does not move its cursor, nor begin a line."""

from __future__ import annotations

from exporter.tools.report import terminal
from exporter.tools.report.document import Bar, Bars, Document, Facts, Heading, Paragraph, Steps, Table
from exporter.tools.report.terminal import Colors

NAME = "a\x1b[2J\r\nb\x07\u202e"
"""Clears the screen, ends the line, rings, and turns what follows around."""
SHOWN = r"a\x1b[2J\r\nb\x07\u202e"


def test_no_name_commands_the_terminal() -> None:
    blocks = (
        Heading(NAME),
        Facts(((NAME, NAME),)),
        Bars((Bar(NAME, NAME, 0.5, "good", "#000000"),)),
        Table(("Job", f">{NAME}"), ((NAME, NAME),)),
        Steps(((NAME, NAME),)),
        Paragraph(NAME),
    )
    text = terminal.render(Document(NAME, blocks), Colors(colours=False))

    assert text.split("\n") == [
        SHOWN,
        "",
        "",
        SHOWN,
        f"  {SHOWN}  {SHOWN}",
        f"  {SHOWN}  {SHOWN}   50 %  ████████████████████",
        f"  {'Job':<{len(SHOWN)}}  {SHOWN}",
        f"  {SHOWN}  {SHOWN}",
        f"  1. {SHOWN}",
        f"     {SHOWN}",
        f"  {SHOWN}",
        "",
    ]


def test_names_of_any_script_stay_as_they_are() -> None:
    assert terminal.render(Document("größe 训练 🚀", ()), Colors(colours=False)) == "größe 训练 🚀\n"
