"""The HTML report in a real browser: it opens from disk, asks for nothing, and shows what a sample holds as text."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpueval
from gpueval.records import Passage, Sample
from gpueval.report.page.retrieved import retrieval_page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install -e '.[dev]'")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")

CHROMIUM = os.environ.get("GPUEVAL_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine: install it, or set GPUEVAL_CHROMIUM"),
]
N = 3000
HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"> \"quoted' & </script>"
    "\u202egnitset\u202c \u200bzero\u200b \x07bell \U000e0041tag مرحبا بالعالم"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield found
        found.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of many samples, the hostile one among them; every tenth answer holds a claim without support."""
    from gpueval.engines.scripted import Scripted
    from gpueval.records import Completion

    def judge(request: Any) -> Completion:
        yes = 0.1 if "moon" in request.parts[-1] else 0.9
        return Completion(request.key, labels=(yes, 1 - yes, 0.0))

    def samples() -> Iterator[Sample]:
        documents = (Passage("The kite is red. It flies high.", "kite-1"), Passage("The boat is blue.", "boat-1"))
        for k in range(N):
            claim = "It came from the moon." if k % 10 == 0 else "It flies high."
            yield Sample(
                id=f"row-{k}",
                question=f"Question number {k}?",
                answer=f"The kite is red. {claim}",
                contexts=documents,
                group=("even", "odd")[k % 2],
            )
        yield Sample(
            id="hostile<b>", question=HOSTILE, answer=HOSTILE, contexts=(Passage(HOSTILE, HOSTILE),), group=HOSTILE
        )
        late = Passage("Filler. " * 4_000 + "A word.", "late")
        yield Sample(id="long", question="Long?", answer="A word. " + "word " * 210_000, contexts=(*documents, late))

    out = tmp_path_factory.mktemp("page") / "run"
    gpueval.evaluate(samples(), judge=Scripted(judge, "page"), metrics=["faithfulness"], out=out)
    return out


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of three samples; one answer turned bad."""
    from gpueval.cli.main import main
    from gpueval.engines.scripted import Scripted
    from gpueval.records import Completion

    def judge(request: Any) -> Completion:
        yes = 0.1 if "wrong" in request.parts[-1] else 0.9
        return Completion(request.key, labels=(yes, 1 - yes, 0.0))

    out = tmp_path_factory.mktemp("pair")
    for name, last in (("before", "It is red."), ("after", "It is wrong.")):
        rows = [
            {"id": str(k), "question": "Which?", "answer": last if k == 2 else "It is red.", "contexts": ["It is red."]}
            for k in range(3)
        ]
        gpueval.evaluate(rows, judge=Scripted(judge, "pair"), metrics=["faithfulness"], out=out / name)
    with pytest.raises(SystemExit) as ended:
        main(["compare", str(out / "before"), str(out / "after"), "--html", str(out / "c.html"), "--json"])
    assert not ended.value.code
    return out / "c.html"


@pytest.fixture(scope="module")
def reasons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ablation that was diagnosed against an earlier one: every part of the section on reasons."""
    from gpueval.ablation.ablate import ablate
    from gpueval.diagnosis.changes import changes
    from gpueval.diagnosis.clusters import find_clusters
    from gpueval.diagnosis.diagnose import diagnose
    from gpueval.diagnosis.folder import Findings, keep
    from gpueval.engines.scripted import Scripted
    from gpueval.records import Completion
    from gpueval.report.folder import write_run_reports

    def judge(request: Any) -> Completion:
        yes = 0.9 if all("red" in text for text in ("".join(request.parts[:-1]), request.parts[-1])) else 0.1
        return Completion(request.key, value=0.1, labels=(yes, 1 - yes, 0.0))

    class Alike:
        def encode(self, texts: Any, kind: Any) -> Any:
            turned = np.arange(len(texts))[:, None] % 2 + np.linspace(0, 0.1, len(texts))[:, None]
            return np.hstack([np.cos(turned), np.sin(turned)]).astype(np.float32)

    out, engine = tmp_path_factory.mktemp("reasons"), Scripted(judge, "reasons")
    for name, last in (("before", "It is red."), ("after", "It is <i>blue</i>.")):
        samples = [
            Sample(
                id=f"{k}/<b>",
                question="Which?",
                answer=last if k % 2 else "It is red.",
                reference="It is red.",
                contexts=(Passage("It is red.", f"d{k}"),),
                relevant_ids=(f"d{k}",),
                group=("a", "<b>")[k % 2],
            )
            for k in range(40)
        ]
        ablate(samples, judge=engine, embedder=engine, rag=lambda question, texts: "It is red.", out=out / name)
    found = diagnose(out / "after")
    clusters = find_clusters(found.claims, Alike())
    assert clusters.clusters
    keep(Findings(found, clusters, changes(out / "before", out / "after"), "before"), out / "after")
    write_run_reports(out / "after")
    return out / "after" / "report.html"


@pytest.fixture(scope="module")
def retrieval(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What gpueval retrieve leaves, for two indexes."""

    def row(kind: str, setting: int | None, share: float) -> dict[str, Any]:
        average = {"mean": share / 2, "ci_low": share / 3, "ci_high": share, "n_scored": 9, "n_total": 10}
        curve = {str(depth): share * depth / 10 for depth in (1, 3, 10)}
        return {
            "index": kind,
            "setting": setting,
            "recall_of_exact": share,
            "queries_per_s": 1000 / share,
            "build_s": 1.0,
            "size_bytes": 1 << 22,
            "metrics": {"ndcg@10": average},
            "curves": {"recall": curve, "ndcg": curve},
        }

    moved = {"index": "ivf", "setting": 4, "query": "q1", "exact": 1.0, "value": 0.0}
    body = {
        "indexes": [row("exact", None, 1.0), row("ivf", 4, 0.7), row("ivf", 16, 0.9)],
        "warnings": ["one <i>remark</i>"],
        "measure": "ndcg@10",
        "worst_queries": [{"query": "q1", "value": 0.0}],
        "moved_queries": [moved],
        "texts": {"q1": "<b>who</b>"},
        "documents": 100,
        "queries": 10,
        "k": 10,
        "embedder": "mini",
        "dimensions": 8,
        "encoded_now": 110,
        "truncated": 1,
    }
    path = tmp_path_factory.mktemp("retrieval") / "report.html"
    path.write_text(retrieval_page(body, "retrieval"))
    return path


@pytest.fixture
def page(browser: Any, folder: Path) -> Iterator[Any]:
    with opened(browser, folder / "report.html") as shown:
        yield shown


@contextmanager
def opened(browser: Any, path: Path) -> Iterator[Any]:
    """A page, open; at the end nothing may have been logged, asked for or blocked."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    shown = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    shown.on("console", lambda message: said.append(message.text))
    shown.on("pageerror", lambda error: said.append(str(error)))
    shown.on("request", lambda request: asked.append(request.url))
    address = path.resolve().as_uri()
    shown.goto(address)
    ready(shown)
    yield shown
    assert said == []
    assert {url.split("#")[0] for url in asked} == {address}
    context.close()


def ready(page: Any) -> None:
    page.wait_for_selector('html[data-ready="true"]', state="attached", timeout=20_000)


def says(page: Any, selector: str, text: str) -> None:
    """Wait until an element says just this."""
    playwright.expect(page.locator(selector)).to_have_text(text)


def serious(page: Any) -> list[str]:
    """Return axe-core's serious and critical findings."""
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in found if one["impact"] in ("serious", "critical")
    ]


def test_only_the_rows_in_view_are_in_the_document(page: Any) -> None:
    assert page.inner_text("#count") == f"{N + 2:,} samples"
    assert page.locator("#list .row").count() < 40
    page.focus("#list")
    page.keyboard.press("End")
    page.wait_for_selector(f"#row-{N + 1}")
    assert page.locator("#list .row").count() < 40


def test_a_finding_lists_its_samples_and_opens_the_first(page: Any) -> None:
    page.click(".findings button:has-text('Claims without support')")
    says(page, "#count", f"{N // 10:,} of {N + 2:,} samples")
    page.wait_for_selector("#detail .claim.no")
    assert page.inner_text("#detail .claim.no") == "✗It came from the moon."


def test_a_sample_opens_by_mouse_and_by_keyboard(page: Any) -> None:
    page.click("#row-3")
    says(page, "#detail h3", "Question number 30?")
    page.focus("#list")
    page.keyboard.press("ArrowDown")
    says(page, "#detail h3", "Question number 40?")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#detail")).to_be_focused()
    page.keyboard.press("Escape")
    playwright.expect(page.locator("#list")).to_be_focused()


def test_a_claim_lights_up_its_evidence(page: Any) -> None:
    page.goto(page.url.split("#")[0] + "#sample=row-1")
    page.reload()
    ready(page)
    claim = page.locator("#detail .claim.yes").first
    claim.focus()
    assert page.inner_text("#detail mark.lit") == "The kite is red."
    assert "document 1" in page.inner_text("#detail .panel")
    page.locator("#detail .claim.yes").nth(1).hover()
    assert page.inner_text("#detail mark.lit") == "It flies high." or page.locator("mark.lit").count() == 2


def test_search_reads_every_text(page: Any) -> None:
    page.fill("#search", "the MOON")
    says(page, "#count", f"{N // 10:,} of {N + 2:,} samples")
    page.fill("#search", "row-2999")
    says(page, "#count", f"1 of {N + 2:,} samples")
    page.click("#clear")
    says(page, "#count", f"{N + 2:,} samples")


def test_a_hostile_sample_is_inert_and_readable(page: Any) -> None:
    page.fill("#search", "hostile")
    says(page, "#count", f"1 of {N + 2:,} samples")
    page.click("#row-0")
    playwright.expect(page.locator("#detail h3")).to_contain_text("owned")
    assert "owned" not in page.title()
    assert page.locator("#detail script, #detail img").count() == 0
    told = page.inner_text("#detail .block")
    assert "<script>document.title='owned'</script>" in told
    for name in ("U+202E", "U+200B", "U+0007", "U+E0041"):
        assert name in told, name
    assert "مرحبا بالعالم" in told


def test_a_megabyte_is_cut_until_it_is_asked_for(page: Any) -> None:
    page.fill("#search", "long?")
    says(page, "#count", f"1 of {N + 2:,} samples")
    page.click("#row-0")
    page.wait_for_selector("#detail .more")
    assert len(page.inner_text("#detail")) < 60_000
    page.locator("#detail .claim").first.focus()  # its evidence lies in the part that is not shown
    assert "document 3" in page.inner_text("#detail .panel")
    page.locator("#detail .more").last.click()
    page.locator("#detail .claim").first.focus()
    assert page.inner_text("#detail mark.lit") == "A word."
    page.locator("#detail .more").first.click()
    assert len(page.inner_text("#detail")) > 1_000_000


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)])
@pytest.mark.parametrize("kind", ["run", "comparison", "retrieval", "reasons"])
def test_axe_has_no_serious_finding(request: Any, browser: Any, kind: str, scheme: Any, width: int) -> None:
    path = request.getfixturevalue("folder") / "report.html" if kind == "run" else request.getfixturevalue(kind)
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(path.resolve().as_uri())
    ready(page)
    if kind != "retrieval":
        page.click("#row-2")
        page.wait_for_selector("#detail .claim")
    assert serious(page) == []
    context.close()


def test_two_runs_stand_side_by_side(browser: Any, comparison: Path) -> None:
    with opened(browser, comparison) as page:
        page.click(".findings button:has-text('faithfulness turned bad')")
        says(page, "#count", "1 of 3 samples")
        says(page, "#row-0 .value", "1.000 → 0.000")
        playwright.expect(page.locator("#detail .side-name")).to_have_text(["before", "after"])
        playwright.expect(page.locator("#detail .side").nth(0).locator(".claim.yes")).to_have_count(1)
        playwright.expect(page.locator("#detail .side").nth(1).locator(".claim.no")).to_have_count(1)


def test_a_retrieval_shows_curves_and_queries(browser: Any, retrieval: Path) -> None:
    with opened(browser, retrieval) as page:
        assert page.locator(".curves").count() == 2
        assert page.is_visible(".tradeoff svg")
        assert "<b>who</b>" in page.inner_text("#queries")


def test_reasons_are_told_and_lead_to_their_samples(browser: Any, reasons: Path) -> None:
    with opened(browser, reasons) as page:
        told = page.inner_text("#why")
        for words in ("Where answers are lost", "What changed since before", "Causes", "Failing claims", "Clusters of"):
            assert words in told, words
        assert "20 of 40 samples show a cause outside the judge. Most frequent: Claims without support (20)." in told
        page.click("#why .causes a >> nth=1")
        page.wait_for_selector("#detail .claim.no")
        assert "It is <i>blue</i>." in page.inner_text("#detail .claim.no")
        page.evaluate("scrollTo(0, 0)")
        page.click("#why .causes a >> nth=1")  # the sample that is open already
        page.wait_for_timeout(200)
        assert page.evaluate("document.getElementById('samples').getBoundingClientRect().top < innerHeight")
        page.set_viewport_size({"width": 390, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_paper_gets_the_overview_and_the_open_sample(page: Any) -> None:
    page.emulate_media(media="print")
    assert not page.is_visible("#list")
    assert not page.is_visible("#filters")
    assert page.is_visible("#detail h3")
    assert page.is_visible(".metrics")


def test_the_policy_lets_nothing_in(folder: Path) -> None:
    text = (folder / "report.html").read_text()
    policy = text.split('Content-Security-Policy" content="')[1].split('"')[0]
    assert "default-src &#39;none&#39;" in policy
    assert "unsafe" not in policy
    assert text.count("<script>") == 1
    assert "<img" not in text
    assert not set("\u202e\u200b\x07\U000e0041") & set(text.split("<script>")[0])  # in the table of groups
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
