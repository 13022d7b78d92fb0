"""Documents of every format, and the chunks that they are cut into."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gpueval.errors import DataError
from gpueval.judge.sentences import sentences
from gpueval.testset.chunks import cut
from gpueval.testset.documents import Document, read_corpus


def readable(library: str) -> Any:
    return pytest.importorskip(library, reason="HTML, PDF and Word are an extra: pip install 'gpueval[documents]'")


def test_chunks_are_slices_of_their_document_and_end_at_sentences() -> None:
    text = "\n\n".join(
        [f"Paragraph {i} tells of a thing. It goes on for a while, " + "word " * 30 + "." for i in range(40)]
    )
    document = Document("a.txt", "  " + text + " Übergröße “quoted” 文です。 " + "".join(map(str, range(400))))
    chunks = cut([document], 400)
    assert all(document.text[one.start : one.end] == one.text for one in chunks)
    assert all(len(one.text) <= 400 and one.text == one.text.strip() for one in chunks)
    assert all(one.text.endswith(".") for one in chunks[:20])
    kept = "".join("".join(one.text.split()) for one in chunks)
    assert kept == "".join(document.text.split())  # nothing is lost
    assert len({one.id for one in chunks}) == len(chunks)


def test_a_chunk_keeps_its_id_where_text_is_put_before_it() -> None:
    paragraphs = [
        f"Paragraph {i} holds a sentence that is long enough to stand alone, it says {i}." * 3 for i in range(6)
    ]
    before = cut([Document("a", "\n\n".join(paragraphs))], 250)
    after = cut([Document("a", "\n\n".join(["A new beginning of the document."] * 8 + paragraphs))], 250)
    assert len({one.id for one in before} & {one.id for one in after}) >= 4


@pytest.mark.parametrize("space", ["\u00a0", "\u2003", "\u3000", "\u2028", "\u0085"])
def test_a_blank_before_a_full_stop_is_read(space: str) -> None:
    text = f"Plan B{space}. Then we go."
    assert [text[one.start : one.end] for one in cut([Document("a", text)])] == [text]
    assert sentences(text)[-1] == "Then we go."


@pytest.mark.parametrize("text", ["", "  \n ", "!!! ... ---"])
def test_a_text_without_words_has_no_chunk(text: str) -> None:
    assert cut([Document("a", text)]) == ()


def test_documents_of_every_format_are_read(tmp_path: Path) -> None:
    docx, fpdf = readable("docx"), pytest.importorskip("fpdf", reason="fpdf2 writes the PDF: pip install -e '.[dev]'")
    readable("bs4")
    readable("pypdf")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "page.html").write_text(
        "<html><head><title>no</title><style>p{}</style></head><body><nav>menu</nav><h1>Berg</h1>"
        "<p>Opens at <b>nine</b>.</p><script>alert(1)</script><table><tr><td>fee</td><td>5 &lt; 6</td></tr></table>"
    )
    word = docx.Document()
    word.add_paragraph("Lost cards cost five crowns.")
    table = word.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "card", "5"
    word.save(str(tmp_path / "fees.docx"))
    pdf = fpdf.FPDF()
    pdf.add_page()
    pdf.set_font("helvetica")
    pdf.cell(text="The library was founded in 1921.")
    pdf.output(str(tmp_path / "history.pdf"))
    (tmp_path / "plain.txt").write_bytes("\ufeffWith a mark.".encode())
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    (tmp_path / "broken.docx").write_bytes(b"PK nothing")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "photo.png").write_bytes(b"\x89PNG")
    (tmp_path / "empty.md").write_text("\n")
    (tmp_path / ".hidden.md").write_text("secret")
    (tmp_path / "out.md").symlink_to("/etc/hostname")
    read = read_corpus(tmp_path)
    held = {one.name: one.text for one in read.documents}
    assert held["sub/page.html"] == "Berg\n\nOpens at nine.\n\nfee 5 < 6"
    assert held["fees.docx"] == "Lost cards cost five crowns.\n\ncard | 5"
    assert held["history.pdf"] == "The library was founded in 1921."
    assert held["plain.txt"] == "With a mark."
    assert len(held) == 4
    assert read.left_out.keys() == {"broken.pdf", "broken.docx", "latin.txt", "photo.png", "empty.md"}
    assert "PDF" in read.left_out["broken.pdf"]
    assert "UTF-8" in read.left_out["latin.txt"]


def test_odd_pages_tables_and_names_are_read(tmp_path: Path) -> None:
    docx = readable("docx")
    readable("bs4")
    (tmp_path / "open.html").write_text("<html><head><title>T</title><body><p>Opens at nine.</p>")
    word = docx.Document()
    table = word.add_table(1, 3)
    table.cell(0, 0).merge(table.cell(0, 2)).text = "Fees"
    word.save(str(tmp_path / "merged.docx"))
    (tmp_path / "tab\tline\n.txt").write_text("One.")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).write_text("Two.")
    (tmp_path / "set").mkdir()
    for name in ("testset.jsonl", "card.md"):
        (tmp_path / "set" / name).write_text("# Test set")
    held = {one.name: one.text for one in read_corpus(tmp_path).documents}
    assert held == {
        "open.html": "Opens at nine.",
        "merged.docx": "Fees",
        "tab\\tline\\n.txt": "One.",
        "caf\\xe9.txt": "Two.",
    }


def test_a_corpus_without_a_document_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is no folder"):
        read_corpus(tmp_path / "none")
    with pytest.raises(DataError, match="holds no document"):
        read_corpus(tmp_path)
