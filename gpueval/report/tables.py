"""What all tables in the terminal share."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table


def new_table(*columns: str, left: Sequence[int] = (0,), unbroken: Sequence[int] = ()) -> Table:
    """Make a table without lines.

    Args:
        columns: Heads, as plain text.
        left: Columns of text; the others hold numbers and stand to the right.
        unbroken: Columns whose cells stay in one line.
    """
    made = Table(box=None, header_style="bold", pad_edge=False)
    for index, name in enumerate(columns):
        made.add_column(
            escape(name), justify="left" if index in left else "right", overflow="fold", no_wrap=index in unbroken
        )
    return made


def widen(console: Console) -> None:
    """Give a file or a pipe room for a table's row in one line; a terminal keeps its width."""
    if not console.is_terminal:
        console.width = max(console.width, 120)


def print_line(console: Console, text: str) -> None:
    """Print one line of markup as it is: no wrapping, no colours for numbers."""
    console.print(text, highlight=False, soft_wrap=True)


def print_notes(console: Console, texts: Sequence[str]) -> None:
    """Print remarks."""
    for text in texts:
        print_line(console, f"note: {escape(text)}")
