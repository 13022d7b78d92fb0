/* A list of any length: only the rows in view are in the document. */
const ROW = 58;

class SampleList {
  constructor(box, open) {
    this.box = box;
    this.open = open;
    this.rows = [];
    this.at = -1;
    this.inner = el("div", { className: "inner", role: "presentation" });
    box.append(this.inner);
    box.addEventListener("scroll", () => requestAnimationFrame(() => this.draw()), { passive: true });
    box.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(box);
  }

  set(rows) {
    this.rows = rows;
    this.inner.style.height = `${rows.length * ROW}px`;
    this.box.scrollTop = 0;
    this.at = -1;
    this.draw();
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.box.clientHeight / ROW) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) this.go(this.at + steps[event.key]);
    else if (event.key === "Enter" && this.at >= 0) this.open(this.rows[this.at], true);
    else return;
    event.preventDefault();
  }

  go(place) {
    if (!this.rows.length) return;
    this.at = clamp(place, 0, this.rows.length - 1);
    const top = this.at * ROW;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top + ROW > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + ROW - this.box.clientHeight;
    this.draw();
    this.open(this.rows[this.at], false);
  }

  draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / ROW) - 4);
    const last = Math.min(this.rows.length, first + Math.ceil(this.box.clientHeight / ROW) + 9);
    const made = [];
    for (let place = first; place < last; place += 1) made.push(this.row(place));
    this.inner.replaceChildren(...made);
    if (this.at >= first && this.at < last) this.box.setAttribute("aria-activedescendant", `row-${this.at}`);
    else this.box.removeAttribute("aria-activedescendant");
  }

  row(place) {
    const row = this.rows[place];
    const shown = sortedBy();
    const group = index.group[row] < 0 ? "" : ` · ${index.groups[index.group[row]]}`;
    const made = el(
      "div",
      {
        className: "row",
        id: `row-${place}`,
        role: "option",
        "aria-selected": String(place === this.at),
        "aria-setsize": String(this.rows.length),
        "aria-posinset": String(place + 1),
      },
      visible(el("span", { className: "head", dir: "auto" }), index.heads[row] || "(no question)"),
      el("span", { className: "value" }, told(row, shown)),
      visible(el("span", { className: "name" }), index.ids[row] + group),
      bars(row, shown),
    );
    made.style.top = `${place * ROW}px`;
    made.addEventListener("click", () => {
      this.at = place;
      this.draw();
      this.open(row, false);
    });
    return made;
  }
}

function told(row, metric) {
  const now = valueOf(row, metric);
  if (index.values.length === 1) return now === null ? stateName(0, metric, row) : fixed(now);
  return `${fixed(index.values[0][metric][row])} → ${fixed(now)}`;
}

const stateName = (which, metric, row) => {
  const state = index.state[which][metric][row];
  return state < 0 ? "not there" : index.states[state].name.replaceAll("_", " ");
};

/* One small bar per metric; the words for it are in the row's title. */
function bars(row, shown) {
  const words = index.metrics.map((metric, k) => `${metric.name} ${fixed(valueOf(row, k))}`).join(", ");
  const box = el("span", { className: "bars", title: words, role: "img", "aria-label": words });
  index.metrics.forEach((metric, k) => {
    const value = valueOf(row, k);
    const bar = el("i", { className: (value === null ? "none" : tone(value, metric)) + (k === shown ? " shown" : "") });
    bar.style.height = value === null ? "3px" : `${3 + value * 17}px`;
    box.append(bar);
  });
  return box;
}

const tone = (value, metric) => ((metric.higher ? value : 1 - value) >= 0.5 ? "good" : "bad");
