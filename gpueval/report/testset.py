"""A test set's card in the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.markup import escape

from gpueval.report.cells import cell
from gpueval.report.tables import new_table, print_notes, widen
from gpueval.units import duration

_HEADS = ("kind", "wanted", "written", "kept", "recall@5", "difficulty", "dropped")


def show_card(console: Console, card: dict[str, Any]) -> None:
    """Print what a set came to.

    Args:
        console: Where to.
        card: Content of ``card.json``.
    """
    widen(console)
    table = new_table(*_HEADS, left=(0, 5, 6), unbroken=range(5))
    for row in _rows(card):
        table.add_row(*map(escape, row))
    console.print(table)
    print_notes(console, list(_notes(card)))


def _trust(card: dict[str, Any]) -> Iterator[str]:
    told = [
        f"{check} {one['balanced_accuracy']:.2f}" + ("" if one["used"] else " (not used: it guesses)")
        for check, one in card["trust"].items()
    ]
    if told:
        yield f"this judge on hand-labelled items, balanced accuracy per check: {', '.join(told)}"


def card_markdown(card: dict[str, Any]) -> str:
    """Return the card as Markdown."""
    lines = ["# Test set", "", "| " + " | ".join(_HEADS) + " |", "|---|---:|---:|---:|---:|---|---|"]
    lines += ["| " + " | ".join(map(cell, row)) + " |" for row in _rows(card)]
    lines += ["", *(f"- {cell(note)}" for note in _notes(card))]
    lines += [f"- not read: {cell(name)}: {cell(why)}" for name, why in card["left_out"].items()]
    facts = card["facts"]
    lines += [f"- judge: {cell(str(facts['judge'].get('model') or facts['judge'].get('engine')))}"] if facts else []
    lines += [f"- prompts: {', '.join(facts['prompts_version'].values())}, gpueval {facts['gpueval']}"] if facts else []
    return "\n".join(lines) + "\n"


def _rows(card: dict[str, Any]) -> Iterator[list[str]]:
    for row in card["rows"]:
        recall = row["recall_at_5"]
        yield [
            row["kind"],
            f"{row['wanted']:,}" if row["wanted"] else "–",
            f"{row['written']:,}",
            f"{row['kept']:,}",
            "–" if recall is None else f"{recall:.2f}",
            ", ".join(f"{name} {n:,}" for name, n in row["difficulty"].items()),
            ", ".join(f"{reason} {n:,}" for reason, n in row["dropped"].items()),
        ]


def _notes(card: dict[str, Any]) -> Iterator[str]:
    used = f"{card['n_documents_used']:,} of {card['n_documents']:,} documents"
    share = f"the most used one holds {card['largest_share']:.0%} of the items"
    yield f"spread: {used} ({card['n_chunks']:,} chunks); {share}"
    if card["solvability_written"] is not None:
        same = card["solvability"] in (None, card["solvability_written"])
        kept = "" if same else f", {card['solvability']:.2f} of what is kept (it had to pass)"
        told = f"{card['solvability_written']:.2f} of what was judged{kept}"
        yield f"solvability, context recall with the true evidence: {told}"
    yield from _trust(card)
    for row in card["rows"]:
        if row["kept"] < row["wanted"]:
            kept = f"{row['kind']}: {row['kept']:,} of {row['wanted']:,}"
            yield f"{kept}: what the judge writes fails the checks, or the corpus has no more to ask"
    if card["left_out"]:
        yield f"{len(card['left_out']):,} files were not read: see card.md"
    if "took_s" in card["facts"]:
        yield f"took {duration(card['facts']['took_s'])}"
