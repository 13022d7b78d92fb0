"""The checks of a gate: in the terminal, as Markdown for a pull request, as JUnit XML for a CI system."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from rich.console import Console
from rich.markup import escape

from gpueval.decisions.gate import Check, Outcome
from gpueval.report.cells import cell
from gpueval.report.tables import new_table, print_notes, widen

_COLOURS: dict[Outcome, str] = {"pass": "green", "warn": "yellow", "review": "magenta", "block": "red"}
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SIGNS: dict[Outcome, str] = {"pass": "✅", "warn": "⚠️", "review": "🔍", "block": "⛔"}


def show_gate(console: Console, checks: Sequence[Check], notes: Sequence[str], *, passed: bool) -> None:
    """Print the checks of a gate and its verdict."""
    widen(console)
    table = new_table("check", "found", "wanted", "result", "why", left=range(5), unbroken=(3,))
    for check in checks:
        result = f"[{_COLOURS[check.result]}]{check.result}[/]"
        table.add_row(escape(check.name), escape(check.found), escape(check.wanted), result, escape(check.why))
    console.print(table)
    print_notes(console, notes)
    console.print("[green]passed[/]" if passed else "[red]blocked[/]")


def gate_markdown(checks: Sequence[Check], notes: Sequence[str], *, passed: bool) -> str:
    """Return the checks as Markdown."""
    lines = [f"### gpueval gate: {'passed' if passed else 'blocked'}", ""]
    lines += ["| | check | found | wanted | why |", "|---|---|---|---|---|"]
    lines += [
        f"| {_SIGNS[check.result]} {check.result} | {cell(check.name)} | {cell(check.found)} | {cell(check.wanted)} "
        f"| {cell(check.why)} |"
        for check in checks
    ]
    return "\n".join([*lines, "", *(f"- {cell(note)}" for note in notes), ""])


def junit(checks: Sequence[Check]) -> bytes:
    """Return the checks as JUnit XML: one test case each; what blocks has failed, what warns says so in its output."""
    n_blocked = sum(check.result == "block" for check in checks)
    suite = ElementTree.Element(
        "testsuite", name="gpueval gate", tests=str(len(checks)), failures=str(n_blocked), errors="0", skipped="0"
    )
    for check in checks:
        name = _NOT_XML.sub("?", check.name)  # the name of a group may hold anything
        case = ElementTree.SubElement(suite, "testcase", classname="gpueval.gate", name=name)
        told = f"{check.found}, wanted {check.wanted}" + (f": {check.why}" if check.why else "")
        if check.result == "block":
            ElementTree.SubElement(case, "failure", message=told, type="block").text = told
        else:
            ElementTree.SubElement(case, "system-out").text = f"{check.result}: {told}"
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    body: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return body + b"\n"
