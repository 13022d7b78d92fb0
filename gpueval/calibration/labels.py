"""Which rows of a run are worth a person's label, as a CSV to fill in, and the filled-in CSV read back."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from gpueval.calibration.apply import answer_score
from gpueval.calibration.record import Unit
from gpueval.errors import DataError, PrerequisiteError, UsageError
from gpueval.records import Sample, State
from gpueval.run_folder import read_samples, write_atomically

COLUMNS = ("metric", "id", "claim", "label", "weight", "question", "text", "evidence")
RIGHT = frozenset({"1", "yes", "y", "true", "right", "supported", "good"})
WRONG = frozenset({"0", "no", "n", "false", "wrong", "unsupported", "not supported", "bad"})

_STRATA = 10
_LONGEST_CELL = 32_000
"""Characters that a cell of a spreadsheet holds, less some."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Item:
    """Something a person can label: a claim, or (``claim`` None) a whole answer."""

    id: str
    claim: int | None
    text: str
    score: float
    p_checker: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A filled-in row of a file of labels."""

    line: int
    id: str
    claim: int | None
    right: bool
    weight: float
    text: str


@dataclass(frozen=True, slots=True)
class Label:
    """A person's word on an item; ``weight`` is one over the chance that it was picked, in any scale."""

    item: int
    right: bool
    weight: float


def items(folder: Path, metric: str, unit: Unit) -> list[Item]:
    """Return everything of a run that can be labelled for a metric: all that has a score.

    Raises:
        UsageError: The run has no scores, does not know the metric, or the metric judges no claims.
    """
    found: list[Item] = []
    known = False
    try:
        lines = (folder / "scores.jsonl").open("rb")
    except OSError as error:
        raise UsageError(f"{folder} has no scores.jsonl.", "Finish the run first.") from error
    with lines:
        for line in lines:
            row = msgspec.json.decode(line)
            cell: dict[str, Any] | None = row["scores"].get(metric)
            if cell is None:
                raise UsageError(
                    f"{folder} does not score {metric}; it scores {', '.join(row['scores'])}.",
                    "Choose one of them with --metric.",
                )
            known |= bool(cell.get("claims"))
            if unit == "answer":
                score = answer_score(cell["value"], cell)
                if score is not None and cell["state"] != State.PARTIAL:
                    found.append(Item(row["id"], None, "", score))
                continue
            found += [
                Item(row["id"], i, claim["text"], claim["p"], claim.get("p_checker"))
                for i, claim in enumerate(cell.get("claims", ()))
                if claim["p"] is not None and cell["state"] != "no_context"
            ]
    if unit == "claim" and not known:
        raise UsageError(f"{metric} has no claims that could be labelled.", "Label whole answers: --unit answer.")
    if not found:
        raise UsageError(f"Nothing in {folder} has a score for {metric}.")
    return found


def pick(scores: Sequence[float], n: int, *, seed: int = 0) -> list[tuple[int, float]]:
    """Pick rows over the whole range of scores: equally many from each tenth, as far as it has them.

    Wrong answers of a good judge and the range around the threshold are rare; equal shares show them at the same price.
    The weight ``rows of the tenth / picked from it`` undoes the unequal chances.

    Args:
        scores: In [0, 1].
        n: How many; all when there are fewer.
        seed: Same seed, same rows.

    Returns:
        Row and weight, in random order, so that a row's place says nothing about its score.
    """
    generator = np.random.default_rng(seed)
    strata = np.minimum((np.asarray(scores) * _STRATA).astype(int), _STRATA - 1)
    members = [generator.permutation(np.flatnonzero(strata == k)) for k in range(_STRATA)]
    taken = [0] * _STRATA
    for _ in range(min(n, len(scores))):
        open_strata = [k for k in range(_STRATA) if taken[k] < len(members[k])]
        taken[min(open_strata, key=lambda k: taken[k])] += 1
    found = [(int(row), len(some) / count) for some, count in zip(members, taken, strict=True) for row in some[:count]]
    return [found[i] for i in generator.permutation(len(found))]


def write(path: Path, folder: Path, metric: str, every: Sequence[Item], picked: Sequence[tuple[int, float]]) -> None:
    """Write the picked rows as CSV, with what a person needs to judge them and without the judge's opinion.

    Raises:
        PrerequisiteError: The file exists (labels would be lost) or cannot be written.
    """
    if path.exists():
        raise PrerequisiteError(f"{path} exists and may hold labels.", "Give another file with --out.")
    wanted = {every[row].id for row, _ in picked}
    samples = {s.id: s for s in read_samples(folder / "samples.jsonl") if s.id in wanted}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for row, weight in picked:
        item = every[row]
        sample = samples[item.id]
        shown = [sample.question or "", item.text or sample.answer or "", _evidence(sample, metric)]
        claim = "" if item.claim is None else item.claim
        writer.writerow([metric, _harmless(item.id), claim, "", round(weight, 6), *map(_harmless, shown)])
    try:
        write_atomically(path, b"\xef\xbb\xbf" + text.getvalue().encode("utf-8", "replace"))
    except OSError as error:
        raise PrerequisiteError(f"{path} cannot be written: {error.strerror}.") from error


def read(path: Path, metric: str) -> dict[str, list[Row]]:
    """Read the filled-in rows of a CSV.

    Columns: ``id`` and ``label``; ``claim`` (number of the claim in scores.jsonl, from 0; blank for a whole answer);
    ``metric`` where a file holds several; ``weight``; ``text``, compared with the run's claim. Rows without a label are
    left out.

    Args:
        path: The file.
        metric: For rows that name none.

    Returns:
        Rows per metric.

    Raises:
        DataError: A row is wrong, or no row has a label.
    """
    found: dict[str, list[Row]] = {}
    name = str(path)
    for line, row in _rows(path):
        word = (row.get("label") or "").strip().casefold()
        if not word:
            continue
        if word not in RIGHT | WRONG:
            raise DataError(
                f"'{row['label']}' is no label", file=name, line=line, field="label", remedy="Write 1 or 0."
            )
        number = (row.get("claim") or "").strip()
        if number and not number.isdecimal():
            raise DataError(f"'{number}' is no number of a claim", file=name, line=line, field="claim")
        text, claim = row.get("text") or "", int(number) if number else None
        weight = _weight(row.get("weight"), name, line)
        of_metric = found.setdefault((row.get("metric") or "").strip() or metric, [])
        of_metric.append(Row(line, row["id"] or "", claim, word in RIGHT, weight, text))
        if (of_metric[0].claim is None) != (claim is None):
            raise DataError(
                "some rows label claims and some whole answers",
                file=name,
                line=line,
                field="claim",
                remedy="Keep them in two files.",
            )
    if not found:
        raise DataError("no row has a label", file=name, field="label", remedy="Write 1 or 0.")
    return found


def match(rows: Sequence[Row], every: Sequence[Item], file: str) -> list[Label]:
    """Find the items that rows speak of.

    Raises:
        DataError: A row is not in the run, has another text there, or is labelled twice.
    """
    place = {(item.id, item.claim): i for i, item in enumerate(every)}
    found: dict[int, Label] = {}
    for row in rows:
        i = place.get((row.id, row.claim), place.get((row.id.removeprefix("'"), row.claim)))
        if i is None:
            what = f"sample '{row.id}'" if row.claim is None else f"claim {row.claim} of sample '{row.id}'"
            remedy = "Label rows of this run."
            raise DataError(f"{what} has no score in this run", file=file, line=row.line, field="id", remedy=remedy)
        told, text = _one_line(row.text), _one_line(every[i].text)
        if row.claim is not None and told and told.removeprefix("'") != text.removeprefix("'"):
            raise DataError(
                f"the run's claim reads '{text[:60]}'",
                file=file,
                line=row.line,
                field="text",
                remedy="The labels belong to another run: sample rows of this one.",
            )
        if i in found:
            raise DataError("this row is labelled twice", file=file, line=row.line, field="id")
        found[i] = Label(i, row.right, row.weight)
    return list(found.values())


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str | None]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=str(path)) from error
    except UnicodeDecodeError as error:
        raise DataError("is not UTF-8", file=str(path), remedy="Save it as 'CSV UTF-8'.") from error
    head = text.partition("\n")[0]
    separator = max(",;\t", key=head.count)  # spreadsheets of many countries write semicolons
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator)
    for column in ("id", "label"):
        if column not in (reader.fieldnames or ()):
            raise DataError("the column is missing", file=str(path), line=1, field=column)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise DataError(f"not CSV: {error}", file=str(path), line=reader.line_num) from error


def _weight(text: str | None, name: str, line: int) -> float:
    if not text or not text.strip():
        return 1.0
    try:
        weight = float(text.replace(",", "."))
    except ValueError:
        weight = 0.0
    if not 0 < weight < float("inf"):
        raise DataError(f"'{text}' is no positive number", file=name, line=line, field="weight")
    return weight


def _evidence(sample: Sample, metric: str) -> str:
    if metric == "answer_correctness":
        return sample.reference or ""
    return "\n\n".join(passage.text for passage in sample.contexts or ())


def _harmless(text: str) -> str:
    """Keep a spreadsheet from running text as a formula, and from cutting it without a word."""
    cut = text if len(text) <= _LONGEST_CELL else text[:_LONGEST_CELL] + " […]"
    return f"'{cut}" if cut.startswith(_FORMULA) else cut


def _one_line(text: str) -> str:
    return " ".join(text.split())
