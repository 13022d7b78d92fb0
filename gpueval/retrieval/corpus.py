"""Documents, queries and judgments of a retrieval task: JSON lines, or a folder in BEIR's layout.

BEIR: ``corpus.jsonl`` (``_id``, ``title``, ``text``), ``queries.jsonl`` (``_id``, ``text``), ``qrels/test.tsv`` with a
header and ``query-id``, ``corpus-id``, ``score``.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from pathlib import Path

from gpueval.errors import DataError
from gpueval.retrieval.lists import read_rows


def texts(path: Path) -> Iterator[tuple[str, str]]:
    """Yield id and text of every line; a title stands before the text.

    Raises:
        DataError: A line has no id or no text, or an id is used twice.
    """
    seen: set[str] = set()
    for line, row in read_rows(path):
        name = row.get("_id", row.get("id"))
        text = row.get("text", row.get("question", row.get("query")))
        if name is None or not isinstance(text, str):
            missing = "id" if name is None else "text"
            raise DataError("is missing", file=str(path), line=line, field=missing, remedy="A line needs id and text.")
        name = str(name)
        if name in seen:
            raise DataError(f"'{name}' is used twice", file=str(path), line=line, field="id")
        seen.add(name)
        title = row.get("title")
        yield name, f"{title} {text}".strip() if title else text
    if not seen:
        raise DataError("holds no line", file=str(path))


def is_beir(path: Path) -> bool:
    """Whether judgments have BEIR's three columns (TREC's have four)."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as stream:
            first = next((line for line in stream if line.strip()), "")
    except OSError as error:
        raise DataError(f"cannot be read: {error}", file=str(path)) from error
    return len(first.split("\t")) == 3


def beir_grades(path: Path) -> dict[str, dict[str, float]]:
    """Read BEIR's tab-separated judgments; of repeated ones the first counts.

    Raises:
        DataError: A line is not of that form.
    """
    found: dict[str, dict[str, float]] = {}
    with path.open(encoding="utf-8-sig", errors="backslashreplace") as stream:
        for line, raw in enumerate(stream, start=1):
            row = raw.rstrip("\r\n").split("\t")
            if not raw.strip() or (line == 1 and row[0] == "query-id"):
                continue
            try:
                query, document, grade = row[0], row[1], float(row[2])
            except (IndexError, ValueError) as error:
                raise DataError("is not 'query-id corpus-id score'", file=str(path), line=line) from error
            if not isfinite(grade):
                raise DataError(f"is '{row[2]}', no finite number", file=str(path), line=line, field="score")
            found.setdefault(query, {}).setdefault(document, grade)
    return found


def locate(corpus: Path, queries: Path | None, qrels: Path | None) -> tuple[Path, Path, Path | None]:
    """Find the three files: those given, or those of a BEIR folder.

    Raises:
        DataError: A file is missing.
    """
    if corpus.is_dir():
        split = next(
            (
                corpus / "qrels" / f"{name}.tsv"
                for name in ("test", "dev")
                if (corpus / "qrels" / f"{name}.tsv").is_file()
            ),
            None,
        )
        corpus, queries, qrels = corpus / "corpus.jsonl", queries or corpus / "queries.jsonl", qrels or split
    if queries is None:
        raise DataError("is missing", file=str(corpus), field="queries", remedy="Give --queries, or a BEIR folder.")
    for file in (corpus, queries, *([qrels] if qrels else [])):
        if not file.is_file():
            raise DataError("does not exist", file=str(file))
    return corpus, queries, qrels
