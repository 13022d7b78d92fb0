"""A sheet for people: every item with its evidence, to keep, to mend or to drop, and the sheet read back.

The CSV opens in a spreadsheet, the HTML page in a browser; the page saves the same CSV from within, and asks nothing of
any network.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
import msgspec

from gpueval.errors import DataError, UsageError
from gpueval.run_folder import locked, write_atomically
from gpueval.testset.folder import SET, read_items, read_more, write_judgments, write_lines
from gpueval.testset.items import Item

COLUMNS = ("id", "verdict", "kind", "question", "alone", "reference", "comment", "evidence", "earlier turns")
FILLED = COLUMNS[:7]
"""What is read back."""

VERDICTS = ("", "keep", "drop")
REJECTED = "rejected.jsonl"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Reviewed:
    """What a reading came to: items kept, of these with another wording, dropped, and without a verdict."""

    n_kept: int
    n_mended: int
    n_dropped: int
    n_open: int


def write_sheet(folder: Path | str, path: Path) -> int:
    """Write the sheet of a set and return its number of items.

    Args:
        folder: Folder of the set.
        path: ``.csv`` or ``.html``.

    Raises:
        UsageError: The file's name ends otherwise.
        DataError: The set cannot be read.
    """
    items = read_items(Path(folder) / SET)
    kind = path.suffix.lower()
    if kind == ".csv":
        content = _csv(items)
    elif kind == ".html":
        content = _html(items)
    else:
        raise UsageError(f"{path} is no .csv or .html.", "Name the sheet review.csv or review.html.")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content.encode("utf-8-sig" if kind == ".csv" else "utf-8"))
    return len(items)


def read_sheet(folder: Path | str, path: Path) -> Reviewed:
    """Take a filled sheet over: dropped items go to ``rejected.jsonl``, changed questions and references are kept.

    An item without a verdict, or not in the sheet, stays as it is; one that was dropped before stays dropped, so that
    the same sheet, or that of a second reader, can be read again. ``queries.jsonl`` and ``qrels/test.tsv`` follow.

    Raises:
        DataError: The sheet is none, names an item that the set does not have, or holds another verdict.
    """
    folder = Path(folder)
    with locked(folder):
        items = read_items(folder / SET)
        before = read_more(folder / REJECTED)
        rows = _rows(path, {item.id for item in (*items, *before)})
        kept, dropped, n_mended, n_open = list[Item](), list[Item](), 0, 0
        for item in items:
            row = rows.get(item.id)
            verdict = row["verdict"].strip().casefold() if row else ""
            n_open += not verdict
            if verdict == "drop":
                dropped.append(msgspec.structs.replace(item, problems=(_comment(row),)))
                continue
            mended = _mended(item, row) if row else item
            n_mended += mended != item
            kept.append(mended)
        if not kept:
            raise DataError("drops every item", file=str(path), remedy="Nothing was changed.")
        write_lines(folder / REJECTED, [*before, *dropped])
        write_lines(folder / SET, kept)
        write_judgments(folder, kept)
    return Reviewed(len(kept), n_mended, len(dropped), n_open)


def _comment(row: dict[str, str] | None) -> str:
    return f"dropped by a person: {(row or {}).get('comment', '').strip()}".removesuffix(": ")


def _mended(item: Item, row: dict[str, str]) -> Item:
    texts = {name: _plain(row[name]) for name in ("question", "alone", "reference")}
    changed = {
        name: text for name, text in texts.items() if text and getattr(item, name) and text != getattr(item, name)
    }
    return msgspec.structs.replace(item, **changed) if changed else item


def _csv(items: Sequence[Item]) -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for item in items:
        evidence = "\n\n".join(f"[{one.document}] {one.text}" for one in item.evidence)
        turns = "\n".join(f"{one.question} / {one.answer}" for one in item.history)
        cells = (item.id, "", item.group, item.question, item.alone, item.reference or "", "", evidence, turns)
        writer.writerow([_harmless(cell) for cell in cells])
    return out.getvalue()


def _rows(path: Path, names: set[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            lacking = [name for name in FILLED if name not in (reader.fieldnames or ())]
            if lacking:
                raise DataError("is missing", file=str(path), field=lacking[0], remedy="Give the sheet back as CSV.")
            for row in reader:
                name = _plain(row["id"] or "")
                if name not in names:
                    raise DataError(f"'{name}' is not in the set", file=str(path), line=reader.line_num, field="id")
                if (row["verdict"] or "").strip().casefold() not in VERDICTS:
                    raise DataError(
                        f"is '{row['verdict']}'",
                        file=str(path),
                        line=reader.line_num,
                        field="verdict",
                        remedy="Write keep, drop or nothing.",
                    )
                found[name] = {key: value or "" for key, value in row.items() if isinstance(value, str | None) and key}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"cannot be read: {error}", file=str(path)) from error
    return found


def _harmless(text: str) -> str:
    """Keep a spreadsheet from taking a text as a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _plain(text: str) -> str:
    text = text.strip()
    return text[1:] if text.startswith("'") and text[1:].startswith(_FORMULA) else text


def _html(items: Sequence[Item]) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("gpueval.testset", "assets"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("review.html").render(items=items, columns=FILLED, verdicts=VERDICTS[1:])
