/* Claims: what each says, what the judge made of it, and the sentence in a document that it rests on. */
const DOCUMENT_COLOURS = 8;
const colourOf = (number) => `var(--document-${number % DOCUMENT_COLOURS})`;

/* Where the sentence stands that a claim rests on: the document's number and place, or nothing. */
function findEvidence(contexts, sentence, wanted) {
  const named = contexts.findIndex(([id], k) => id === wanted || k === wanted);
  const order = [...contexts.keys()].sort((a, b) => (b === named) - (a === named));
  for (const number of order) {
    const place = locate(contexts[number][2], sentence);
    if (place) return { number, ...place };
  }
  return null;
}

/* Reads the claims of a metric: state, words for it, and the places in the documents. */
function readClaims(cell, contexts, blended, against) {
  return (cell?.claims ?? []).map((claim) => {
    const mixed = blended.find((one) => one.claim === claim.text);
    const sentences = mixed ? mixed.sentences : claim.sentence ? [claim.sentence] : [];
    const places = against === "documents" ? sentences.map((one) => findEvidence(contexts, one, claim.evidence)).filter(Boolean) : [];
    const kind = mixed ? "mixed" : claim.supported === null ? "lost" : claim.supported ? "yes" : claim.unsure ? "unsure" : "no";
    return { claim, kind, places, told: tellClaim(claim, kind, places, sentences, against) };
  });
}

function tellClaim(claim, kind, places, sentences, against) {
  const words = {
    yes: `Supported by the ${against}.`,
    no: `Not supported by the ${against}.`,
    unsure: "The judge cannot tell: counted as not supported.",
    lost: "The verdict is missing.",
    mixed: "Mixes what different documents say.",
  };
  const told = [words[kind]];
  if (claim.p !== null && claim.p !== undefined) told.push(`Probability of support ${claim.p.toFixed(2)}${claim.unstable ? ", a close call" : ""}.`);
  if (places.length) {
    const numbers = [...new Set(places.map((place) => place.number + 1))].join(" and ");
    told.push(`${kind === "no" ? "Closest sentence" : "Evidence"}: document ${numbers}.`);
    const lacking = lackingWords(claim.text, sentences.join(" "));
    if (lacking.length) told.push(`Not in ${sentences.length > 1 ? "these sentences" : "that sentence"}: ${lacking.join(", ")}.`);
  }
  return told.join(" ");
}

/* Words of a claim that its evidence lacks: where a fact comes from elsewhere, they say which. */
function lackingWords(text, evidence) {
  const wordsOf = (one) => one.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  const there = new Set(wordsOf(evidence));
  const lacking = wordsOf(text).filter((word) => (word.length > 3 || /\p{N}/u.test(word)) && !there.has(word));
  return [...new Set(lacking)].slice(0, 8);
}

const SIGNS = { yes: "✓", no: "✗", unsure: "?", lost: "–", mixed: "⇄" };

function claimElement(read, link) {
  const made = el("span", { className: `claim ${read.kind}`, role: "button", tabindex: "0", title: read.told });
  if (read.kind === "mixed" && read.places.length > 1) {
    const [first, second] = read.places.map((place) => colourOf(place.number));
    made.style.backgroundImage = `linear-gradient(90deg, ${first} 50%, ${second} 50%)`;
  }
  made.append(el("sup", { className: "sign", "aria-hidden": "true" }, SIGNS[read.kind]));
  link(made, read);
  return made;
}

/* Joins claims and sentences: whichever is pointed at or focused lights up the other. */
function makeLinks(panel) {
  const marks = new Map();
  const keyOf = (place) => `${place.number}:${place.start}`;
  const light = (read, on, scroll) => {
    for (const place of read.places) {
      const mark = marks.get(keyOf(place));
      if (!mark?.element) continue; // in a long text's part that is not shown yet
      mark.element.classList.toggle("lit", on);
      if (on && scroll) mark.element.scrollIntoView({ block: "nearest" });
    }
    read.element?.classList.toggle("lit", on);
    panel.textContent = on ? read.told : panel.dataset.hint;
  };
  const bind = (element, read) => {
    read.element = element;
    element.addEventListener("mouseenter", () => light(read, true, false));
    element.addEventListener("mouseleave", () => light(read, false, false));
    element.addEventListener("focus", () => light(read, true, false));
    element.addEventListener("blur", () => light(read, false, false));
    element.addEventListener("click", () => light(read, true, true));
    element.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      light(read, true, true);
      event.preventDefault();
    });
    for (const place of read.places) {
      const held = marks.get(keyOf(place)) ?? { ...place, reads: [] };
      held.reads.push(read);
      marks.set(keyOf(place), held);
    }
  };
  const spansOf = (number) =>
    [...marks.values()]
      .filter((mark) => mark.number === number)
      .map((mark) => ({
        ...mark,
        make: () => {
          mark.element = el("mark", { className: "evidence" });
          mark.element.addEventListener("mouseenter", () => mark.reads.forEach((read) => light(read, true, false)));
          mark.element.addEventListener("mouseleave", () => mark.reads.forEach((read) => light(read, false, false)));
          return mark.element;
        },
      }));
  return { bind, spansOf };
}

/* A text with its claims in place; those that are not in it word for word follow as a list. */
function claimedText(text, reads, links) {
  const spans = [];
  const loose = [];
  let from = 0;
  for (const read of reads) {
    const place = locate(text, read.claim.text, from);
    if (place && !spans.some((span) => place.start < span.end && span.start < place.end)) {
      spans.push({ ...place, make: () => claimElement(read, links.bind) });
      from = place.end;
    } else loose.push(read);
  }
  const box = el("div", {}, write(el("p", { className: "text", dir: "auto" }), text, spans));
  if (loose.length) {
    box.append(
      el("ul", { className: "loose", "aria-label": "Claims" }, loose.map((read) => el("li", { dir: "auto" }, visible(claimElement(read, links.bind), read.claim.text)))),
    );
  }
  return box;
}
