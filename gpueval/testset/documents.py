"""A folder of documents as plain text: text, Markdown, HTML, PDF and Word.

Text and Markdown are taken as they are, so that offsets are those of the file. HTML is read by Beautiful Soup over
Python's own parser, PDF by pypdf, Word by python-docx: kept for many years, pure Python or next to it, and they run
nothing that a document brings.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpueval.errors import DataError
from gpueval.lazy import require

PLAIN = (".txt", ".md", ".markdown", ".rst")
_HTML = (".html", ".htm", ".xhtml")
FORMATS = (*PLAIN, *_HTML, ".pdf", ".docx")

_UNSEEN_TAGS = ("script", "style", "noscript", "template", "title", "nav", "footer", "svg")
_BLOCK_TAGS = ("p", "div", "li", "h1", "h2", "h3", "h4", "h5", "h6", "tr", "section", "article", "pre", "blockquote")


@dataclass(frozen=True, slots=True)
class Document:
    """One file.

    Attributes:
        name: Path below the corpus folder, with forward slashes.
        text: Its text; offsets of chunks count characters of it.
    """

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Corpus:
    """The documents of a folder, by name, and why files were left out (name to reason)."""

    documents: tuple[Document, ...]
    left_out: dict[str, str]


def read_corpus(folder: Path) -> Corpus:
    """Read every document below a folder, in order of their names; hidden files and links out of it are not followed.

    A file that cannot be read, or holds no text (a scanned PDF), is left out with its reason: one bad file of thousands
    must not stop the work. Files of other kinds are left out as "not a known format".

    Raises:
        DataError: The folder does not exist, or no file in it holds text.
        PrerequisiteError: A format's library is not installed.
    """
    if not folder.is_dir():
        raise DataError("is no folder", file=str(folder), remedy="Give the folder that holds the documents.")
    found: list[Document] = []
    left_out: dict[str, str] = {}
    for path in _files(folder):
        name = _name(path.relative_to(folder))
        try:
            text = _text(path)
        except DataError as error:
            left_out[name] = error.message.removeprefix(f"{path}: ")
            continue
        if text.strip():
            found.append(Document(name, text))
        else:
            left_out[name] = "holds no text"
    if not found:
        raise DataError("holds no document that can be read", file=str(folder), remedy=f"Known: {', '.join(FORMATS)}")
    return Corpus(tuple(found), left_out)


def _name(path: Path) -> str:
    """Name a file in letters that every output can hold: what is no UTF-8, or controls a terminal, is escaped."""
    text = os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _files(folder: Path) -> Iterator[Path]:
    root = folder.resolve()
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        hidden = hidden or (path.parent / "testset.jsonl").is_file()  # a set is not made of its own card
        if path.is_file() and not hidden and path.resolve().is_relative_to(root):
            yield path


def _text(path: Path) -> str:
    """Read one file.

    Raises:
        DataError: It cannot be read, or its format is not known.
    """
    kind = path.suffix.lower()
    if kind in PLAIN:
        try:
            return path.read_bytes().decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"cannot be read as UTF-8: {error}", file=str(path)) from error
    if kind in _HTML:
        return _html(path, require("bs4", "documents"))
    if kind == ".pdf":
        return _pdf(path, require("pypdf", "documents"))
    if kind == ".docx":
        return _docx(path, require("docx", "documents"))
    raise DataError("not a known format", file=str(path))


def _html(path: Path, library: Any) -> str:
    """Text of a page: what a reader sees, a line per block, without scripts, styles and navigation."""
    try:
        page = library.BeautifulSoup(path.read_bytes(), "html.parser")
        for tag in page.find_all(_UNSEEN_TAGS):
            tag.decompose()
        for tag in page.find_all("br"):
            tag.replace_with("\n")
        for tag in page.find_all(_BLOCK_TAGS):
            tag.insert_before("\n\n")
            tag.insert_after("\n\n")
        for tag in page.find_all(("td", "th")):
            tag.insert_after(" ")
        blocks = (" ".join(block.split()) for block in page.get_text().split("\n\n"))
        return "\n\n".join(block for block in blocks if block)
    except (OSError, ValueError, AssertionError, RecursionError) as error:  # a page nested ten thousand deep, too
        raise DataError(f"cannot be read as HTML: {type(error).__name__}", file=str(path)) from error


def _pdf(path: Path, library: Any) -> str:
    """Text of all pages, an empty line between them; a soft hyphen at the end of a line is taken out."""
    logger = logging.getLogger("pypdf")
    before, logger.disabled = logger.disabled, True  # it reports every oddity of a file it reads well
    try:
        pages = [page.extract_text() for page in library.PdfReader(path).pages]
    except Exception as error:  # a damaged file makes pypdf raise many kinds of error
        raise DataError(f"cannot be read as PDF: {type(error).__name__}: {error}", file=str(path)) from error
    finally:
        logger.disabled = before
    return "\n\n".join(page.strip() for page in pages if page.strip()).replace("\u00ad\n", "")


def _docx(path: Path, library: Any) -> str:
    """Paragraphs and rows of tables in the order in which they stand."""
    try:
        parts = [
            part.text if hasattr(part, "text") else _table(part)
            for part in library.Document(str(path)).iter_inner_content()
        ]
    except Exception as error:  # a damaged file makes zipfile, lxml or python-docx raise
        raise DataError(f"cannot be read as Word: {type(error).__name__}: {error}", file=str(path)) from error
    return "\n\n".join(part for part in parts if part.strip())


def _table(table: Any) -> str:
    """Rows of a table; a cell that stretches over several columns counts once."""
    rows = ({id(cell._tc): cell.text.strip() for cell in row.cells} for row in table.rows)
    return "\n".join(" | ".join(row.values()) for row in rows)
