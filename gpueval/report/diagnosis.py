"""A diagnosis in the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape

from gpueval.diagnosis.changes import CHANGE_WORDS, Change, Changes
from gpueval.diagnosis.clusters import Clusters
from gpueval.diagnosis.diagnose import Diagnosis, Share
from gpueval.diagnosis.failures import FAILURE_WORDS
from gpueval.report.comparison import p_text, signed
from gpueval.report.tables import new_table, print_line, print_notes, widen

_SHOWN = 8


def show_diagnosis(console: Console, diagnosis: Diagnosis, clusters: Clusters | None = None) -> None:
    """Print what ails a run: the causes, what to try for those that are named, the kinds of failing claims."""
    widen(console)
    print_line(console, f"[bold]{escape(verdict(diagnosis))}[/]")
    if diagnosis.findings:
        table = new_table(
            "where", "cause", "samples", "share", "95 % interval", "clearest", left=(0, 1, 5), unbroken=(2, 3, 4)
        )
        for one in diagnosis.findings:
            mark = "[bold]" if one.named else ""
            told = (str(one.samples.n), f"{one.samples.share:.1%}", ends(one.samples), escape(", ".join(one.clearest)))
            table.add_row(one.area, f"{mark}{escape(one.title)}", *told)
        console.print(table)
    for one in diagnosis.findings:
        if not one.named:
            continue
        print_line(console, f"\n[bold]{escape(one.title)}[/]: {escape(one.words)}")
        print_line(console, f"  try next:   {escape(one.try_next)}")
        print_line(console, f"  to confirm: {escape(one.confirm)}")
        if one.standing_out:
            rates = ", ".join(f"{group} {one.groups[group].share:.0%}" for group in one.standing_out)
            print_line(console, f"  stands out: {escape(rates)} (all: {one.samples.share:.0%})")
    if diagnosis.kinds:
        table = new_table("failing claims", "n", "", left=(0, 2))
        for kind, n in diagnosis.kinds.items():
            table.add_row(kind, f"{n:,}", FAILURE_WORDS[kind])
        console.print()
        console.print(table)
    if clusters:
        _show_clusters(console, clusters)
    print_notes(console, [*(f"judge: {text}" for text in diagnosis.judge), *unseen(diagnosis)])


def verdict(diagnosis: Diagnosis) -> str:
    """Return the diagnosis in a sentence or two."""
    main = diagnosis.main()
    told = f"{diagnosis.n_troubled:,} of {diagnosis.n_samples:,} samples show a cause outside the judge."
    if not main:
        return f"{told} None of them is frequent enough to be named."
    first = f"{told} Most frequent: {main[0].title} ({main[0].samples.n:,})"
    rest = ", ".join(f"{one.title} ({one.samples.n:,})" for one in main[1:3])
    return f"{first}{f', then {rest}' if rest else ''}."


def unseen(diagnosis: Diagnosis) -> Iterator[str]:
    """Say which causes could not be seen, per metric or field that would show them."""
    by_need: dict[str, list[str]] = {}
    for cause, need in diagnosis.unseen.items():
        by_need.setdefault(need, []).append(cause)
    for need, causes in by_need.items():
        yield f"not looked for: {', '.join(causes)}; that takes {need}"


def ends(share: Share) -> str:
    """Format a share's interval."""
    return f"{share.low:.1%} – {share.high:.1%}"


def _show_clusters(console: Console, found: Clusters) -> None:
    left = f", {found.n_left_out:,} more left out" if found.n_left_out else ""
    counts = f"of {found.n_claims:,} failing claims ({found.n_alone:,} stand alone{left})"
    console.print()
    print_line(console, f"[bold]{len(found.clusters):,} clusters[/] {counts}")
    table = new_table("claims", "samples", "terms", "in the middle", "mostly", left=(2, 3, 4))
    for one in found.clusters[:_SHOWN]:
        kind = next(iter(one.kinds))
        told = (escape(", ".join(one.terms)), escape(one.label), f"{kind} {one.kinds[kind]:,}")
        table.add_row(f"{one.n:,}", f"{one.n_samples:,}", *told)
    if found.clusters:
        console.print(table)


def show_changes(console: Console, found: Changes, base: str, other: str) -> None:
    """Print what changed from one run to another, and what each change did."""
    widen(console)
    print_line(console, f"[bold]{escape(other)}[/] against {escape(base)}: {escape(changes_verdict(found))}")
    table = new_table("what changed", "samples", *found.parts, left=(0,), unbroken=range(2 + len(found.parts)))
    for kind in Change:
        if kind in found.counts:
            parts = [found.parts[name].get(kind) for name in found.parts]
            cells = ("–" if part is None else signed(part.difference) for part in parts)
            table.add_row(kind, f"{found.counts[kind]:,} / {found.n:,}", *cells)
    whole = [found.metrics[name] for name in found.parts]
    table.add_row("all", f"{found.n:,}", *(signed(one.difference) for one in whole))
    table.add_row("p (Holm)", "", *(p_text(one.p_value) for one in whole))
    console.print(table)
    for kind in found.counts:
        print_line(console, f"  {kind}: {CHANGE_WORDS[kind]} {escape('Such as ' + ', '.join(found.examples[kind]))}.")
    if found.causes:
        table = new_table("cause", "before", "after", "p (Holm)", left=(0,))
        for one in found.causes.values():
            mark = "[bold]" if one.rose or one.fell else ""
            table.add_row(f"{mark}{escape(one.title)}", f"{one.before:,}", f"{one.after:,}", p_text(one.p_value))
        console.print(table)
    print_notes(console, [f"the runs were judged with {text}" for text in found.judged_otherwise])


def changes_verdict(found: Changes) -> str:
    """Return what changed in a sentence or two: the metric that moved most, and which change that comes from."""
    moved = found.moved()
    if not moved:
        told = "no metric moved by more than chance"
    else:
        name = max(moved, key=lambda metric: abs(moved[metric].difference or 0.0))
        parts = found.parts[name]
        kind = max(parts, key=lambda one: abs(parts[one].difference))
        part = signed(parts[kind].difference)
        told = f"{name} moved by {signed(moved[name].difference)}, {part} of it where {_WHERE[kind]}"
    risen = [found.causes[key].title for key in found.risen()]
    return f"{told}." + (f" More frequent now: {', '.join(risen)}." if risen else "")


_WHERE = {
    Change.QUESTION: "the question or the reference changed",
    Change.DOCUMENTS: "documents were edited",
    Change.CHUNKS: "the same text is cut otherwise",
    Change.RETRIEVAL: "other documents were retrieved",
    Change.ORDER: "the same documents came in another order",
    Change.GENERATION: "only the answer changed",
    Change.NOTHING: "nothing changed but the judge's verdict",
}
