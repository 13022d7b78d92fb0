/* Elements are made here and texts go in as text: nothing of a sample is ever read as markup. */
const byId = (id) => document.getElementById(id);

function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name in made && name !== "list" && typeof value !== "string") made[name] = value;
    else made.setAttribute(name === "className" ? "class" : name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

const count = (n) => n.toLocaleString("en-US");
const fixed = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
