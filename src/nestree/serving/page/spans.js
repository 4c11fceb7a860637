// What spans are to each other: rows, parents, keys. No drawing here.

/** The same thing in text, tree and table has the same key. */
export const keyOf = ({ start, end, label }) => `${start}-${end}-${label ?? ""}`;

/** The row of each span, from 0: below those of all shorter spans that share a word with it. As in nestree.drawing. */
export function levels(spans) {
  const rows = new Array(spans.length).fill(0);
  const placed = [];
  const order = spans.map((_, at) => at);
  order.sort((a, b) => spans[a].end - spans[a].start - (spans[b].end - spans[b].start) || b - a);
  for (const at of order) {
    const { start, end } = spans[at];
    let row = -1;
    for (const other of placed) if (other.start < end && start < other.end) row = Math.max(row, other.row);
    rows[at] = row + 1;
    placed.push({ start, end, row: row + 1 });
  }
  return rows;
}

/** Widths of columns, with the space added that `{start, end, width}` needs over the columns [start, end). */
export function widened(widths, needs, gap) {
  const result = [...widths];
  const order = [...needs].sort((a, b) => a.end - a.start - (b.end - b.start));
  for (const { start, end, width } of order) {
    let have = gap * (end - start - 1);
    for (let at = start; at < end; at++) have += result[at];
    const share = Math.max(0, width - have) / (end - start);
    for (let at = start; at < end; at++) result[at] += share;
  }
  return result;
}

/** The service counts Unicode code points, strings of JavaScript have UTF-16: a function from the one to the other. */
export function fromCodePoints(text) {
  if (!/[\ud800-\udbff]/.test(text)) return (at) => at;
  const places = [];
  let at = 0;
  for (const character of text) {
    places.push(at);
    at += character.length;
  }
  places.push(at);
  return (number) => places[number];
}

/**
 * A document as the service gives it, with words in place of characters everywhere and words in UTF-16.
 * `inWords`: entities and nodes count words already (the document was a list of words).
 */
export function understood(given, inWords = false) {
  const place = fromCodePoints(given.text);
  const words = given.words.map(([start, end]) => ({ start: place(start), end: place(end) }));
  const byStart = new Map(given.words.map(([start], at) => [start, at]));
  const byEnd = new Map(given.words.map(([, end], at) => [end, at + 1]));
  const inNodes = (nodes) =>
    nodes.map(({ start, end, label, score }) => ({
      start: inWords ? start : byStart.get(start),
      end: inWords ? end : byEnd.get(end),
      label: label ?? null,
      score: score ?? null,
    }));
  const entities = given.entities.map((one, at) => ({
    start: one.token_start,
    end: one.token_end,
    label: one.label,
    score: one.score,
    text: one.text,
    depth: one.depth,
    parent: one.parent,
    from: one.start,
    to: one.end,
    number: at,
  }));
  return {
    text: given.text,
    words,
    sentences: given.sentences.map(([start, end]) => ({ start, end })),
    entities,
    trees: given.trees?.map((tree) => inNodes(tree.nodes)) ?? null,
    alternatives:
      given.alternatives?.map((trees) => trees.map((one) => ({ probability: one.probability, nodes: inNodes(one.nodes) }))) ??
      null,
    windowed: given.windowed,
  };
}

/** The text of the words [start, end). */
export function textOf(found, start, end) {
  return found.text.slice(found.words[start].start, found.words[end - 1].end);
}

/** Entities as the service gave them without those of hidden labels; depth and parent speak of what is left. */
export function withoutLabels(entities, hidden) {
  const kept = [];
  const numbers = new Map();
  entities.forEach((one, at) => {
    if (hidden.has(one.label)) return;
    let parent = one.parent;
    while (parent !== null && hidden.has(entities[parent].label)) parent = entities[parent].parent;
    numbers.set(at, kept.length);
    const over = parent === null ? null : numbers.get(parent);
    kept.push({ ...one, parent: over, depth: over === null ? 1 : kept[over].depth + 1 });
  });
  return kept;
}

/** What one tree has that the other has not, entities only: `{added, missing}`. */
export function difference(nodes, others) {
  const labelled = (given) => new Map(given.filter((one) => one.label !== null).map((one) => [keyOf(one), one]));
  const [here, there] = [labelled(nodes), labelled(others)];
  return {
    added: [...here.values()].filter((one) => !there.has(keyOf(one))),
    missing: [...there.values()].filter((one) => !here.has(keyOf(one))),
  };
}
