/* Data of the page: gzipped JSON in base64, unpacked when it is looked at. */
async function unpack(id) {
  const binary = atob(byId(id).textContent);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

const unpacked = new Map();

function block(number) {
  if (!unpacked.has(number)) unpacked.set(number, unpack(`block-${number}`));
  return unpacked.get(number);
}

async function sampleAt(row) {
  const starts = index.starts;
  let low = 0;
  let high = starts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle] <= row) low = middle;
    else high = middle - 1;
  }
  return (await block(low))[row - starts[low]];
}

/* Everything a search looks at, in small letters; read once, block by block, so that the page stays alive. */
let searchable = null;

async function readTexts(progress) {
  if (searchable) return searchable;
  const texts = [];
  for (let number = 0; number < index.starts.length; number += 1) {
    for (const sample of await block(number)) {
      const parts = [sample.id, sample.question, sample.reference];
      for (const side of sample.sides) {
        if (side) parts.push(side.answer, ...side.contexts.flat());
      }
      texts.push(parts.filter(Boolean).join("\n").toLowerCase());
    }
    progress(texts.length);
  }
  searchable = texts;
  return texts;
}
