/* Which samples are listed, and in what order. */
const EVERYTHING = { text: "", finding: -1, group: -1, metric: -1, low: null, high: null, state: -1, sort: "" };
let chosen = { ...EVERYTHING };

const side = () => index.values.length - 1; // of two runs the later one is filtered by
const valueOf = (row, metric) => index.values[side()][metric][row];
const changeOf = (row, metric) => {
  const [before, after] = [index.values[0][metric][row], index.values[1][metric][row]];
  return before === null || after === null ? null : after - before;
};

function matches(row, wanted, texts) {
  if (wanted.finding >= 0 && !((index.masks[row] >> wanted.finding) & 1)) return false;
  if (wanted.group >= 0 && index.group[row] !== wanted.group) return false;
  if (wanted.metric >= 0 && (wanted.low !== null || wanted.high !== null)) {
    const value = valueOf(row, wanted.metric);
    if (value === null) return false;
    if (wanted.low !== null && value < wanted.low) return false;
    if (wanted.high !== null && wanted.high < 1 && value >= wanted.high && wanted.high !== wanted.low) return false;
    if (wanted.high !== null && value > wanted.high) return false;
  }
  if (wanted.state >= 0) {
    const metrics = wanted.metric >= 0 ? [wanted.metric] : index.metrics.keys();
    if (![...metrics].some((metric) => index.state[side()][metric][row] === wanted.state)) return false;
  }
  return !texts || texts[row].includes(wanted.text);
}

/* "worst:2" is metric 2 with bad values first, "best:2" the other way, "change:2" the largest loss first. */
function ordered(rows, sort) {
  const [how, number] = sort.split(":");
  if (!how) return rows;
  const metric = Number(number);
  const sign = (index.metrics[metric].higher ? 1 : -1) * (how === "best" || how === "gain" ? -1 : 1);
  const key = how === "change" || how === "gain" ? changeOf : valueOf;
  const keys = new Map(rows.map((row) => [row, key(row, metric)]));
  return rows.sort((a, b) => {
    const [x, y] = [keys.get(a), keys.get(b)];
    if (x === null || y === null) return (x === null) - (y === null) || a - b;
    return sign * (x - y) || a - b;
  });
}

function select(wanted, texts) {
  const rows = [];
  for (let row = 0; row < index.ids.length; row += 1) if (matches(row, wanted, texts)) rows.push(row);
  return ordered(rows, wanted.sort);
}
