/* One sample: what was asked, what was answered, and what in the documents holds it up. */
function describeState(cell) {
  const found = index.states.find((state) => state.name === cell.state);
  return found ? found.words : cell.state;
}

function scoreList(scores) {
  const rows = index.metrics.map((metric) => {
    const cell = scores[metric.name];
    if (!cell) return el("li", {}, el("b", {}, metric.name), " not there");
    const bar = el("span", { className: "meter" });
    if (cell.value !== null) {
      const fill = el("i", { className: tone(cell.value, metric) });
      fill.style.width = `${clamp(cell.value, 0, 1) * 100}%`;
      bar.append(fill);
    }
    return el(
      "li",
      { title: metric.words },
      el("b", {}, metric.name),
      bar,
      el("span", { className: "number" }, fixed(cell.value)),
      el("span", { className: "quiet" }, remark(metric, cell)),
    );
  });
  return el("ul", { className: "scores" }, rows);
}

function remark(metric, cell) {
  const told = [];
  if (cell.state !== "ok") told.push(describeState(cell));
  if (cell.missing) told.push(`It lacks: ${cell.missing}.`);
  if (cell.low !== undefined) told.push(`Between ${fixed(cell.low)} and ${fixed(cell.high)}.`);
  if (cell.evasive) told.push("The answer evades the question.");
  if (cell.equal) told.push("The same text as the reference.");
  if (cell.similarity !== undefined) {
    told.push(`Precision ${fixed(cell.precision)}, recall ${fixed(cell.recall)}, similarity ${fixed(cell.similarity)}.`);
  }
  if (cell.n_cannot_tell) told.push(`The judge could not tell in ${cell.n_cannot_tell} cases.`);
  return told.join(" ");
}

function answerBlock(side, links) {
  const blended = side.scores.blending?.blended ?? [];
  const ways = [
    ["documents", "faithfulness"],
    ["reference", "answer_correctness"],
  ].filter(([, metric]) => side.scores[metric]?.claims?.length);
  const holder = el("div");
  const draw = (against, metric) => {
    const reads = metric ? readClaims(side.scores[metric], side.contexts, against === "documents" ? blended : [], against) : [];
    holder.replaceChildren(
      side.answer ? claimedText(side.answer, reads, links) : el("p", { className: "quiet" }, "There is no answer."),
    );
  };
  draw(...(ways[0] ?? ["documents", ""]));
  const head = el("h4", {}, "Answer");
  if (ways.length > 1) {
    const pick = el("select", { "aria-label": "Colour the answer's claims by" }, ways.map(([against], k) => el("option", { value: String(k) }, `held against the ${against}`)));
    pick.addEventListener("change", () => draw(...ways[Number(pick.value)]));
    head.append(pick);
  }
  return el("div", { className: "block" }, head, holder);
}

function documents(sample, side, links) {
  const useful = side.scores.context_precision?.useful ?? side.scores.context_precision_answer?.useful ?? [];
  const relevant = new Set(sample.relevant ?? []);
  const cards = side.contexts.map(([id, source, text], number) => {
    const badge = el("span", { className: "number-badge" }, String(number + 1));
    badge.style.backgroundColor = colourOf(number);
    const head = el("header", {}, badge, visible(el("b", {}), id ?? `document ${number + 1}`));
    if (source) head.append(visible(el("span", { className: "quiet" }), ` ${source}`));
    if (relevant.has(id)) head.append(el("span", { className: "badge good" }, "relevant"));
    if (number in useful) head.append(el("span", { className: `badge ${useful[number] ? "good" : "bad"}` }, useful[number] ? "useful" : "not useful"));
    const card = el("section", { className: "document", "aria-label": `Document ${number + 1}` }, head);
    card.style.borderInlineStartColor = colourOf(number);
    card.append(write(el("p", { className: "text", dir: "auto" }), text, links.spansOf(number)));
    return card;
  });
  const missed = side.retrieved ? [...relevant].filter((id) => !side.retrieved.includes(id)) : [];
  const box = el("div", { className: "block" }, el("h4", {}, "Documents"));
  if (missed.length) box.append(visible(el("p", { className: "missed" }), `Relevant, but not retrieved: ${missed.join(", ")}`));
  if (!cards.length) box.append(el("p", { className: "quiet" }, "No document was retrieved."));
  box.append(...cards);
  return box;
}

function sideBlock(sample, side, name) {
  const box = el("div", { className: "side" });
  if (name) box.append(el("h4", { className: "side-name" }, name));
  if (!side) return el("div", { className: "side" }, el("p", { className: "quiet" }, "This run lacks the sample."));
  const panel = el("p", { className: "panel", "aria-live": "polite" });
  panel.dataset.hint = "Point at a claim, or reach it with Tab: its evidence lights up.";
  panel.textContent = panel.dataset.hint;
  const links = makeLinks(panel);
  const answer = answerBlock(side, links);
  const parts = [answer, panel];
  if (sample.reference) {
    const reads = readClaims(side.scores.context_recall, side.contexts, [], "documents");
    parts.push(el("div", { className: "block" }, el("h4", {}, "Reference"), claimedText(sample.reference, reads, links)));
  }
  if (side.suspicious) parts.push(visible(el("p", { className: "missed" }), `Speaks to the judge: ${JSON.stringify(side.suspicious)}`));
  box.append(...parts, documents(sample, side, links), el("div", { className: "block" }, el("h4", {}, "Scores"), scoreList(side.scores)));
  return box;
}

let shownRow = -1;

async function showSample(row, focus) {
  shownRow = row;
  const sample = await sampleAt(row);
  if (shownRow !== row) return; // another one was asked for while this one was unpacked
  const group = index.group[row] < 0 ? [] : [el("span", { className: "badge" }, visible(el("span"), index.groups[index.group[row]]))];
  const flags = index.findings
    .filter((_, k) => (index.masks[row] >> k) & 1)
    .map((finding) => el("span", { className: "badge warn", title: finding.words }, finding.title));
  const known = sample.answerable === false ? [el("span", { className: "badge" }, "known to be unanswerable")] : [];
  const box = byId("detail");
  box.replaceChildren(
    el("button", { type: "button", className: "back", id: "back" }, "← Samples"),
    write(el("h3", { dir: "auto" }), sample.question || "(no question)"),
    el("p", { className: "meta" }, visible(el("span", { className: "quiet" }), sample.id), " ", group, known, flags),
    el("div", { className: sample.sides.length > 1 ? "sides two" : "sides" }, sample.sides.map((one, k) => sideBlock(sample, one, index.names?.[k]))),
  );
  byId("browser").classList.add("reading");
  box.scrollTop = 0;
  if (focus) box.focus();
  byId("back").addEventListener("click", leaveSample);
  history.replaceState(null, "", `#sample=${encodeURIComponent(sample.id)}`);
}

function leaveSample() {
  byId("browser").classList.remove("reading");
  byId("list").focus();
}
