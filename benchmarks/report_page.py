"""How large the HTML report is and how fluid: a real run as it is, and with its samples copied many times.

    python benchmarks/report_page.py RUN [--copies 24] [--work FOLDER] [--out benchmarks/results/report_page.jsonl]

Opens the file in headless Chromium and measures, as the page sees it: the time until the samples can be used, a filter,
a search through every text, opening a sample by mouse and by keyboard, and the frames while the list is scrolled
through. Copies get ids of their own; their texts repeat, so that the file compresses better than that of as many
distinct samples would: with --shuffle every copy's texts get their words in another order.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright
from result_rows import emit

from gpueval.report.folder import write_run_reports

_SCROLL = """async () => {
  const list = document.getElementById("list");
  const frames = [];
  let last = performance.now();
  const end = last + 3000;
  return await new Promise((resolve) => {
    const step = (now) => {
      frames.push(now - last);
      last = now;
      list.scrollTop += 400;
      if (now < end) requestAnimationFrame(step);
      else resolve(frames.slice(2).sort((a, b) => a - b));
    };
    requestAnimationFrame(step);
  });
}"""


def copied(run: Path, copies: int, folder: Path, *, shuffle: bool) -> int:
    """Write a run folder that holds a run's samples many times and return their number."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("run.json", "summary.json"):
        shutil.copy(run / name, folder)
    samples = [json.loads(line) for line in (run / "samples.jsonl").open()]
    scores = [json.loads(line) for line in (run / "scores.jsonl").open()]
    mixer = random.Random(0)

    def mixed(text: str) -> str:
        words = text.split()
        mixer.shuffle(words)
        return " ".join(words)

    with (folder / "samples.jsonl").open("w") as first, (folder / "scores.jsonl").open("w") as second:
        for k in range(copies):
            for sample, line in zip(samples, scores, strict=True):
                made = dict(sample, id=f"{sample['id']}-{k}")
                if shuffle and k:
                    made |= {name: mixed(made[name]) for name in ("question", "answer") if made.get(name)}
                    made["contexts"] = [dict(one, text=mixed(one["text"])) for one in made.get("contexts") or ()]
                first.write(json.dumps(made) + "\n")
                second.write(json.dumps(dict(line, id=made["id"])) + "\n")
    facts = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(facts | {"n_samples": copies * len(samples)}))
    return copies * len(samples)


def took(page: Page, act: Any, selector: str, wanted: str) -> float:
    """Do something and return the milliseconds until an element's text is another one and holds what is wanted."""
    before = page.locator(selector).text_content()
    began = time.perf_counter()
    act()
    while True:
        now = page.locator(selector).text_content() or ""
        if now != before and wanted in now:
            return (time.perf_counter() - began) * 1000
        if time.perf_counter() - began > 60:
            raise SystemExit(f"{selector} still says {now!r}")


def measured(path: Path, chromium: str) -> dict[str, Any]:
    """Open a report and use it."""
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=chromium,
            args=["--enable-precise-memory-info", *(["--no-sandbox"] if os.geteuid() == 0 else [])],
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
        said: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        began = time.perf_counter()
        page.goto(path.resolve().as_uri())
        page.wait_for_selector('html[data-ready="true"]', state="attached", timeout=60_000)
        load = (time.perf_counter() - began) * 1000
        finding = took(page, lambda: page.click(".findings button >> nth=0"), "#count", " of ")
        cleared = took(page, lambda: page.dispatch_event("#clear", "click"), "#count", "samples")
        mouse = took(page, lambda: page.click("#list .row >> nth=5"), "#detail .meta", "")
        page.focus("#list")
        keys = took(page, lambda: page.keyboard.press("ArrowDown"), "#detail .meta", "")
        search = took(page, lambda: page.fill("#search", "1"), "#count", " of ")
        again = took(page, lambda: page.fill("#search", "17"), "#count", " of ")
        page.dispatch_event("#clear", "click")
        page.wait_for_timeout(500)
        frames = page.evaluate(_SCROLL)
        heap = page.evaluate("performance.memory.usedJSHeapSize")
        browser.close()
    return {
        "load_ms": round(load),
        "finding_ms": round(finding),
        "clear_ms": round(cleared),
        "open_by_mouse_ms": round(mouse),
        "open_by_key_ms": round(keys),
        "first_search_ms": round(search),
        "next_search_ms": round(again),
        "frame_median_ms": round(frames[len(frames) // 2], 1),
        "frame_p99_ms": round(frames[int(len(frames) * 0.99)], 1),
        "heap_mib": round(heap / 2**20, 1),
        "console_messages": len(said),
        "requests_besides_the_file": sum(url.split("#")[0] != path.resolve().as_uri() for url in asked),
    }


def main() -> None:
    """Measure one report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--shuffle", action="store_true", help="Other words in every copy.")
    parser.add_argument("--chromium", default=shutil.which("chromium") or "chromium")
    parser.add_argument("--work", type=Path, help="Keep the copied run here.")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.work or Path(temporary) / options.run.name
        n = copied(options.run, options.copies, folder, shuffle=options.shuffle)
        began = time.perf_counter()
        write_run_reports(folder)
        seconds = time.perf_counter() - began
        page = folder / "report.html"
        row = {
            "benchmark": "report_page",
            "run": options.run.name,
            "samples": n,
            "distinct_texts": options.shuffle or options.copies == 1,
            "written_s": round(seconds, 2),
            "peak_memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
            "file_mib": round(page.stat().st_size / 2**20, 2),
        } | measured(page, options.chromium)
    emit(row, options.out)


if __name__ == "__main__":
    main()
