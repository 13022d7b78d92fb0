"""Runs compared: tables in the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.markup import escape

from gpueval.decisions.compare import Difference
from gpueval.report.cells import cell
from gpueval.report.tables import new_table, print_line, print_notes, widen
from gpueval.units import score

_HEAD = ("metric", "base", "other", "difference", "95 % interval", "p (Holm)", "d", "better", "worse", "pairs")
_NAMED = 5


def show_comparison(
    console: Console, base: str, found: Mapping[str, Mapping[str, Difference]], notes: Sequence[str]
) -> None:
    """Print, per other run, its differences from the base, per metric and per group, and who turned."""
    widen(console)
    for other, differences in found.items():
        print_line(console, f"[bold]{escape(other)}[/] against {escape(base)}")
        table = new_table(*_HEAD, unbroken=range(len(_HEAD)))
        for name, one in differences.items():
            table.add_row(escape(name), *_row(one))
        console.print(table)
        if any(one.groups for one in differences.values()):
            table = new_table("difference by group", *map(escape, differences), unbroken=(0,))
            for group in sorted({group for one in differences.values() for group in one.groups}):
                table.add_row(escape(group), *(_of_group(one, group) for one in differences.values()))
            console.print(table)
        for text in _sentences(differences):
            print_line(console, f"  {escape(text)}")
    print_notes(console, notes)


def comparison_markdown(base: str, found: Mapping[str, Mapping[str, Difference]], notes: Sequence[str]) -> str:
    """Return the comparison as Markdown."""
    lines: list[str] = []
    for other, differences in found.items():
        lines += [f"### {cell(other)} against {cell(base)}", "", f"| {' | '.join(_HEAD)} |"]
        lines += ["|---" + "|---:" * (len(_HEAD) - 1) + "|"]
        lines += [f"| {cell(name)} | {' | '.join(_row(one))} |" for name, one in differences.items()]
        lines += ["", *(f"- {cell(text)}" for text in _sentences(differences)), ""]
    return "\n".join([*lines, *(f"- {cell(note)}" for note in notes), ""])


def _row(one: Difference) -> tuple[str, ...]:
    return (
        score(one.base),
        score(one.other),
        signed(one.difference),
        "–" if one.low is None else f"{signed(one.low)} – {signed(one.high)}",
        p_text(one.p_value),
        "–" if one.effect is None else f"{one.effect:+.2f}",
        f"{one.n_better:,}",
        f"{one.n_worse:,}",
        f"{one.n:,}" + (f" (+{one.n_unpaired:,} without)" if one.n_unpaired else ""),
    )


def _of_group(one: Difference, group: str) -> str:
    found = one.groups.get(group)
    if found is None:
        return "–"
    ends = "" if found.low is None else f" ({signed(found.low)} – {signed(found.high)})"
    return f"{signed(found.difference)}{ends}, {found.n:,}"


def _sentences(differences: Mapping[str, Difference]) -> Iterator[str]:
    for name, one in differences.items():
        for what, ids in (("turned bad", one.turned_bad), ("turned good", one.turned_good)):
            if ids:
                more = f", … ({len(ids):,})" if len(ids) > _NAMED else ""
                yield f"{name} {what}: {', '.join(ids[:_NAMED])}{more}"
        if one.detectable is not None:
            needed = f"; the wanted one needs {one.needed:,}" if one.needed else ""
            yield f"{name}: {one.n:,} pairs show a difference from about {score(one.detectable)} on{needed}"


def signed(value: float | None) -> str:
    """Format a difference with its sign."""
    return "–" if value is None else f"{value:+.3f}"


def p_text(p: float | None) -> str:
    """Format a p-value."""
    return "–" if p is None else f"{p:.4f}" if p >= 0.0001 else "< 0.0001"
