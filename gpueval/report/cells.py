"""Texts in Markdown."""

from __future__ import annotations


def cell(text: object) -> str:
    """Make a text fit for a cell of a table: one line, no bars, tags or code marks of its own."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;").replace("`", "'")
