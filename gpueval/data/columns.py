"""Column names of known formats, and one row read as a sample.

Names understood without being told: gpueval's own, Ragas (``user_input``, ``retrieved_contexts``, ``response``; before
0.2 ``ground_truth``), TruLens (``input``, ``output``, ``expected_response``), DeepEval (``actual_output`` /
``actualOutput``, ``retrieval_context``, ``expected_output``) and RAGChecker (``query``, ``gt_answer``,
``retrieved_context``). DeepEval's ``context`` holds ideal, not retrieved, chunks and is not read as ``contexts``.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gpueval.errors import DataError, UsageError
from gpueval.records import Passage, Sample

ALIASES: dict[str, tuple[str, ...]] = {
    "id": ("id", "sample_id", "query_id", "record_id", "input_id", "ground_truth_id"),
    "question": ("question", "user_input", "query", "input", "prompt", "main_input"),
    "answer": ("answer", "response", "actual_output", "actualOutput", "output", "main_output"),
    "contexts": (
        "contexts",
        "retrieved_contexts",
        "retrieval_context",
        "retrievalContext",
        "retrieved_context",
        "context",
    ),
    "reference": (
        "reference",
        "ground_truth",
        "ground_truths",
        "expected_output",
        "expectedOutput",
        "expected_response",
        "ground_truth_output",
        "gt_answer",
    ),
    "answerable": ("answerable", "is_answerable"),
    "group": ("group",),
    "retrieved_ids": ("retrieved_ids", "retrieved_context_ids"),
    "relevant_ids": ("relevant_ids", "reference_context_ids"),
}
_DEEPEVAL = ("actual_output", "actualOutput", "retrieval_context", "retrievalContext")
_TEXT_KEYS = ("text", "content", "page_content", "context", "chunk")
_ID_KEYS = ("id", "doc_id", "chunk_id", "_id")
_SOURCE_KEYS = ("source", "document", "title", "file")
_ADJACENT = re.compile(r"(['\"])\s+(['\"])")
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")


@dataclass(slots=True)
class Columns:
    """Which column feeds which field.

    Attributes:
        explicit: Field to column, from ``--columns``; goes before the known names.
        separator: Splits ``contexts`` given as one text (DeepEval's CSV: ``|``); empty keeps it whole.
        warnings: Counted while rows are read.
    """

    explicit: Mapping[str, str] = field(default_factory=dict)
    separator: str = ""
    warnings: Counter[str] = field(default_factory=Counter)

    def find(self, row: Mapping[str, Any], name: str) -> str | None:
        """Return the column of a row that feeds a field, or None."""
        if name in self.explicit:
            return self.explicit[name]
        for column in ALIASES[name]:
            if column in row:
                if column == "context" and any(mark in row for mark in _DEEPEVAL):
                    continue
                return column
        return None


def parse_columns(text: str) -> dict[str, str]:
    """Read ``question=message,answer=response``.

    Raises:
        UsageError: A pair has no ``=`` or names an unknown field.
    """
    found: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, equals, column = pair.partition("=")
        if not equals or name.strip() not in ALIASES:
            raise UsageError(f"--columns: '{pair}' is not FIELD=COLUMN.", f"Fields: {', '.join(ALIASES)}")
        found[name.strip()] = column.strip()
    return found


def to_sample(row: Mapping[str, Any], columns: Columns, *, file: str, line: int) -> Sample:
    """Read one row.

    Args:
        row: Column to value.
        columns: The mapping; its warnings are counted up.
        file: For errors.
        line: For errors; also the id of a row without one.

    Raises:
        DataError: A value has the wrong type, or a named column is missing.
    """
    values: dict[str, Any] = {}
    used: set[str] = set()
    for name in ALIASES:
        column = columns.find(row, name)
        if column is None:
            continue
        if column not in row:
            raise DataError(
                f"there is no column '{column}'; the row has: {', '.join(map(str, row)) or 'nothing'}",
                file=file,
                line=line,
                field=name,
                remedy="Correct --columns.",
            )
        used.add(column)
        where = _Where(file, line, column)
        value = row[column]
        if (
            value is None
            or value != value
            or (value == "" and name not in ("answer", "contexts", "reference", "question"))
        ):
            continue
        if name == "contexts":
            values[name] = _contexts(value, columns, where)
        elif name in ("retrieved_ids", "relevant_ids"):
            values[name] = _ids(value, where)
        elif name == "answerable":
            values[name] = _flag(value, where)
        else:
            values[name] = _text(value, where, first_of_list=column == "ground_truths")
    if not {"question", "answer", "contexts", "reference"} & values.keys() and not used & set(row):
        raise DataError(
            f"no known column; the row has: {', '.join(map(str, row)) or 'nothing'}",
            file=file,
            line=line,
            remedy="Name them, for example --columns question=message,answer=reply,contexts=passages",
        )
    values.setdefault("id", str(line))
    return Sample(**values)


@dataclass(frozen=True, slots=True)
class _Where:
    file: str
    line: int
    column: str

    def error(self, message: str, remedy: str = "") -> DataError:
        return DataError(message, file=self.file, line=self.line, field=self.column, remedy=remedy)


def _text(value: Any, where: _Where, *, first_of_list: bool = False) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, list):
        if first_of_list and value and isinstance(value[0], str):
            return value[0]
        raise where.error(
            "a list where one text is expected",
            "Conversations are not scored yet: give one question and one answer per row.",
        )
    raise where.error(f"expected a text, found {_kind(value)}")


def _contexts(value: Any, columns: Columns, where: _Where) -> tuple[Passage, ...]:
    if isinstance(value, str):
        value = _from_text(value, columns)
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list | tuple):
        raise where.error(f"expected a list of chunks, found {_kind(value)}")
    return tuple(_passage(item, index, where) for index, item in enumerate(value))


def _from_text(value: str, columns: Columns) -> Any:
    stripped = value.strip()
    if stripped.startswith("["):
        for read in (msgspec.json.decode, _literal):
            try:
                parsed = read(stripped)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
            if isinstance(parsed, list) and all(isinstance(item, str | dict) for item in parsed):
                return parsed
    if not stripped:
        return []
    if columns.separator:
        return [part for part in value.split(columns.separator) if part.strip()]
    columns.warnings["contexts given as one text, taken as one chunk"] += 1
    return [value]


def _literal(text: str) -> Any:
    """Read a Python list as a CSV writer prints it; NumPy's form has no commas between its items."""
    return ast.literal_eval(_ADJACENT.sub(r"\1, \2", text))


def _passage(item: Any, index: int, where: _Where) -> Passage:
    if isinstance(item, str):
        return Passage(item)
    if not isinstance(item, Mapping):
        raise where.error(f"chunk {index} is {_kind(item)}; expected a text or an object with 'text'")
    text = next((item[key] for key in _TEXT_KEYS if isinstance(item.get(key), str)), None)
    if text is None:
        raise where.error(f"chunk {index} has no text; its keys: {', '.join(map(str, item))}")
    return Passage(text, _named(item, _ID_KEYS), _named(item, _SOURCE_KEYS))


def _named(item: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    return next((str(item[key]) for key in keys if isinstance(item.get(key), str | int)), None)


def _ids(value: Any, where: _Where) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError as error:
            raise where.error(f"not a JSON list: {error}") from error
    if isinstance(value, set | frozenset):
        raise where.error("a set has no order; give the ids as a list, best first")
    if not isinstance(value, list | tuple) or not all(isinstance(item, str | int) for item in value):
        raise where.error(f"expected a list of ids, found {_kind(value)}")
    return tuple(map(str, value))


def _flag(value: Any, where: _Where) -> bool:
    text = str(value).strip().casefold()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise where.error(f"expected true or false, found {value!r}")


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", bool: "a truth value", int: "a number", float: "a number"}
    return names.get(type(value), f"a {type(value).__name__}")
