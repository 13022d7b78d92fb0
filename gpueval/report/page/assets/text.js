/* Text as it is: what cannot be seen is named, what would turn the line around is shown instead of obeyed. */
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;
const LONGEST = 20000;
const codeOf = (character) => `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
const spelled = (text) => text.replace(HIDDEN, codeOf);

function visible(parent, text) {
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > from) parent.append(text.slice(from, match.index));
    parent.append(el("span", { className: "hidden-character", title: "a character that cannot be seen" }, codeOf(match[0])));
    from = match.index + match[0].length;
  }
  if (from < text.length) parent.append(text.slice(from));
  return parent;
}

/* Writes a text with marked spans [{start, end, make}] into a block; a very long one is cut until it is asked for. */
function write(parent, text, spans = [], most = LONGEST) {
  const end = Math.min(text.length, most);
  let from = 0;
  for (const span of [...spans].sort((a, b) => a.start - b.start)) {
    if (span.start < from || span.start >= end) continue;
    visible(parent, text.slice(from, span.start));
    from = Math.min(span.end, end);
    parent.append(visible(span.make(), text.slice(span.start, from)));
  }
  visible(parent, text.slice(from, end));
  if (end < text.length) {
    const more = el("button", { type: "button", className: "more" }, `Show all ${count(text.length)} characters`);
    more.addEventListener("click", () => {
      parent.replaceChildren();
      write(parent, text, spans, Infinity);
    });
    parent.append(" … ", more);
  }
  return parent;
}

/* Finds a sentence in the text that it was taken from; white space and marks of lists may differ. */
function locate(text, sentence, from = 0) {
  const exact = text.indexOf(sentence, from);
  if (exact >= 0) return { start: exact, end: exact + sentence.length };
  const words = sentence.split(/\s+/).filter(Boolean);
  for (let start = words.length ? text.indexOf(words[0], from) : -1; start >= 0; start = text.indexOf(words[0], start + 1)) {
    let at = start;
    const whole = words.every((word) => {
      while (at < text.length && /\s/.test(text[at])) at += 1;
      if (!text.startsWith(word, at)) return false;
      at += word.length;
      return true;
    });
    if (whole) return { start, end: at };
  }
  return from > 0 ? locate(text, sentence, 0) : null;
}
