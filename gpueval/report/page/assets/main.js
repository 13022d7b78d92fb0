/* The page wakes up. */
let index = null;
let list = null;

function options(select, entries) {
  select.replaceChildren(...entries.map(([value, label]) => el("option", { value: String(value) }, label)));
}

function sortedBy() {
  const metric = Number(chosen.sort.split(":")[1]);
  return Number.isInteger(metric) && chosen.sort ? metric : Math.max(0, chosen.metric);
}

function fillForm() {
  const names = index.metrics.map((metric, k) => [k, metric.name]);
  const there = new Set(index.state.flat(2));
  options(byId("finding"), [[-1, "all samples"], ...index.findings.map((one, k) => [k, one.title])]);
  options(byId("group"), [[-1, "all groups"], ...index.groups.map((name, k) => [k, spelled(name)])]);
  options(byId("metric"), [[-1, "any metric"], ...names]);
  options(byId("state"), [[-1, "any state"], ...index.states.map((state, k) => [k, state.name.replaceAll("_", " ")]).filter(([k]) => there.has(k))]);
  const ways = index.values.length > 1 ? [["change", "largest loss"], ["gain", "largest gain"], ["worst", "worst now"]] : [["worst", "worst"], ["best", "best"]];
  options(byId("sort"), [["", "order of the file"], ...ways.flatMap(([how, words]) => names.map(([k, name]) => [`${how}:${k}`, `${words}: ${name}`]))]);
  byId("group-label").hidden = index.groups.length === 0;
}

function showForm() {
  byId("search").value = chosen.text;
  for (const name of ["finding", "group", "metric", "state"]) byId(name).value = String(chosen[name]);
  byId("low").value = chosen.low ?? "";
  byId("high").value = chosen.high ?? "";
  byId("sort").value = chosen.sort;
}

function readForm() {
  const number = (id) => (byId(id).value === "" ? null : Number(byId(id).value));
  return {
    text: byId("search").value.trim().toLowerCase(),
    finding: Number(byId("finding").value),
    group: Number(byId("group").value),
    metric: Number(byId("metric").value),
    low: number("low"),
    high: number("high"),
    state: Number(byId("state").value),
    sort: byId("sort").value,
  };
}

/* Lists what is wanted; opens the first one of them where a person asked for a kind, not for a word. */
async function apply(wanted, open) {
  chosen = wanted;
  showForm();
  const texts = wanted.text ? await readTexts((n) => (byId("count").textContent = `reading … ${count(n)}`)) : null;
  if (chosen !== wanted) return; // a later wish overtook this one
  const rows = select(wanted, texts);
  list.set(rows);
  byId("count").textContent = rows.length === index.ids.length ? `${count(rows.length)} samples` : `${count(rows.length)} of ${count(index.ids.length)} samples`;
  if (open && rows.length) list.go(0);
}

function bindForm() {
  let waiting = 0;
  byId("filters").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => apply(readForm(), false), 120);
  });
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("clear").addEventListener("click", () => apply({ ...EVERYTHING, sort: chosen.sort }, false));
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#sample="]');
    if (link && link.hash === location.hash) openFromAddress(); // the same address again is no change of it
    const asked = event.target.closest("[data-filter]");
    if (!asked) return;
    const wanted = { ...EVERYTHING, sort: chosen.sort, ...JSON.parse(asked.dataset.filter) };
    if (wanted.metric >= 0 && !("sort" in JSON.parse(asked.dataset.filter))) wanted.sort = `${index.values.length > 1 ? "change" : "worst"}:${wanted.metric}`;
    apply(wanted, true);
    byId("samples").scrollIntoView();
  });
  byId("detail").addEventListener("keydown", (event) => {
    if (event.key === "Escape") leaveSample();
  });
}

async function openFromAddress() {
  if (!location.hash.startsWith("#sample=")) return;
  const named = new URLSearchParams(location.hash.slice(1)).get("sample");
  const row = named === null ? -1 : index.ids.indexOf(named);
  if (row < 0) return;
  const place = list.rows.indexOf(row);
  if (place >= 0) list.go(place);
  else await showSample(row, false);
  byId("samples").scrollIntoView();
}

function bindTheme() {
  const button = byId("theme");
  const dark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const label = () => (button.textContent = dark() ? "Light" : "Dark");
  button.hidden = false;
  label();
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    label();
  });
}

async function wake() {
  bindTheme();
  document.documentElement.dataset.ready = byId("index") ? "soon" : "true";
  if (!byId("index")) return;
  if (typeof DecompressionStream === "undefined") {
    byId("trouble").hidden = false;
    byId("trouble").textContent = "This browser is too old to unpack the samples: Chrome 80, Firefox 113 and Safari 16.4 can.";
    return;
  }
  index = await unpack("index");
  fillForm();
  byId("filters").hidden = false;
  byId("browser").hidden = false;
  list = new SampleList(byId("list"), showSample);
  bindForm();
  addEventListener("hashchange", openFromAddress);
  await apply({ ...EVERYTHING, sort: `${index.values.length > 1 ? "change" : "worst"}:0` }, false);
  if (location.hash.startsWith("#sample=")) await openFromAddress();
  else if (list.rows.length && matchMedia("(min-width: 60rem)").matches) await showSample(list.rows[0], false);
  document.documentElement.dataset.ready = "true";
}

wake();
