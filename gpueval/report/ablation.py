"""An ablation in the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape

from gpueval.diagnosis.ablation import Ablation, Condition, Gap, Reading
from gpueval.report.cells import cell
from gpueval.report.comparison import signed
from gpueval.report.tables import new_table, print_line, print_notes, widen
from gpueval.units import score

CONDITION_WORDS = {
    Condition.FULL: "with the documents that were retrieved",
    Condition.ORACLE: "with the true documents",
    Condition.CLOSED: "without documents",
}


def show_ablation(console: Console, found: Ablation) -> None:
    """Print right answers per condition, what they differ by, and what follows, whole and per group."""
    widen(console)
    whole = found.whole
    table = new_table("condition", "right", "share", "95 % interval", f"mean {found.metric}", unbroken=range(5))
    for condition, one in whole.right.items():
        ends = f"{one.low:.1%} – {one.high:.1%}"
        counts = f"{one.n:,} / {one.n_total:,}"
        table.add_row(f"{condition}: {CONDITION_WORDS[condition]}", counts, f"{one.share:.1%}", ends, score(one.mean))
    console.print(table)
    table = new_table("what it says", "difference", "95 % interval", "matters", "samples needed", unbroken=range(5))
    for words, gap in gaps(whole):
        ends = f"{signed(gap.low)} – {signed(gap.high)}"
        table.add_row(words, signed(gap.difference), ends, gap.matters, "" if gap.needed is None else f"{gap.needed:,}")
    console.print(table)
    for text in whole.conclusions:
        print_line(console, f"[bold]{escape(text)}[/]")
    for group, reading in found.groups.items():
        shares = ", ".join(f"{condition} {right.share:.0%}" for condition, right in reading.right.items())
        print_line(console, f"  {escape(group)} (n = {reading.n:,}): {shares}. {escape(' '.join(reading.conclusions))}")
    print_notes(console, [f"an answer is right from {found.metric} {found.good} on", *found.notes])


def ablation_markdown(found: Ablation) -> Iterator[str]:
    """Yield an ablation as Markdown, line by line."""
    yield from ("## Where answers are lost", "", *found.whole.conclusions, "")
    yield f"| condition | right | share | 95 % interval | mean {cell(found.metric)} |"
    yield "|---|---:|---:|---:|---:|"
    for condition, one in found.whole.right.items():
        shares = f"{one.n:,} / {one.n_total:,} | {one.share:.1%} | {one.low:.1%} – {one.high:.1%}"
        yield f"| {condition}: {CONDITION_WORDS[condition]} | {shares} | {score(one.mean)} |"
    yield from ("", "| what it rests on | difference | 95 % interval | matters |", "|---|---:|---:|---|")
    for words, gap in gaps(found.whole):
        needed = "" if gap.needed is None else f"; about {gap.needed:,} samples would tell"
        yield f"| {words} | {signed(gap.difference)} | {signed(gap.low)} – {signed(gap.high)} | {gap.matters}{needed} |"
    yield ""
    yield from (f"- {cell(name)} (n = {one.n:,}): {' '.join(one.conclusions)}" for name, one in found.groups.items())
    yield from (f"- {cell(note)}" for note in found.notes)
    yield ""


def gaps(reading: Reading) -> Iterator[tuple[str, Gap]]:
    """Yield the differences that a reading rests on, each with what it says."""
    named = (
        ("lost in retrieval: oracle - full", reading.retrieval),
        ("true documents that lack the reference", reading.documents),
        ("lost in generation: 1 - oracle", reading.generation),
        ("gained by documents: full - closed", reading.knowledge),
    )
    for words, gap in named:
        if gap is not None:
            yield words, gap
