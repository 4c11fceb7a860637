// The tree of one sentence: solid lines for entities, dashed ones for latent constituents. As nestree.drawing.tree_svg.

import { bold, draw, fontOf, percent, roving, scoreText, width } from "./elements.js";
import { keyOf, textOf, widened } from "./spans.js";

const MARGIN = 12;
const GAP = 12;
const LEVEL = 34;
const BOX = 22;
const CORNER = 6;

/** Nodes in preorder, with what hangs where; nodes that cross (of sentences read in windows) are left out. */
export function treeOf(first, last, given) {
  const order = [...given].sort((a, b) => a.start - b.start || b.end - a.end);
  const nodes = [];
  const parents = [];
  const above = [];
  for (const node of order) {
    while (above.length && nodes[above.at(-1)].end <= node.start) above.pop();
    if (above.length && nodes[above.at(-1)].end < node.end) continue;
    parents.push(above.length ? above.at(-1) : null);
    above.push(nodes.length);
    nodes.push(node);
  }
  const inner = new Set(parents);
  const shown = nodes.map((_, at) => at);
  const visible = shown.filter((at) => nodes[at].label !== null || nodes[at].end - nodes[at].start > 1 || inner.has(at));
  const heights = nodes.map(() => 1);
  for (const at of [...visible].reverse()) {
    if (parents[at] !== null) heights[parents[at]] = Math.max(heights[parents[at]], heights[at] + 1);
  }
  const owners = new Array(last - first).fill(null);
  for (const at of visible) owners.fill(at, nodes[at].start - first, nodes[at].end - first);
  return { nodes, parents, heights, visible, owners };
}

/** Draws a sentence's tree into `svg`. Returns its size. */
export function drawTree(svg, found, sentence, given, { colour, muted, links, differs = new Set() }) {
  const { start: first, end: last } = sentence;
  const tree = treeOf(first, last, given);
  const font = fontOf(svg);
  const small = `normal 400 12px ${getComputedStyle(document.body).fontFamily}`;
  const words = found.words.slice(first, last).map((_, at) => textOf(found, first + at, first + at + 1));
  const captions = new Map();
  for (const at of tree.visible) {
    const { label, score } = tree.nodes[at];
    if (label === null) continue;
    const shown = scoreText(score);
    captions.set(at, { label, shown, width: width(label, bold(small)) + (shown ? width(` ${shown}`, small) + 2 : 0) });
  }
  const natural = words.map((word) => Math.max(4, width(word, font)));
  const needs = [...captions].map(([at, one]) => ({
    start: tree.nodes[at].start - first,
    end: tree.nodes[at].end - first,
    width: one.width + 22,
  }));
  const widths = widened(natural, needs, GAP);
  const right = getComputedStyle(svg).direction === "rtl";
  const lefts = [];
  let across = MARGIN;
  for (const one of widths) {
    lefts.push(across);
    across += one + GAP;
  }
  const total = across - GAP + MARGIN;
  const flip = (x) => (right ? total - x : x);
  const middle = (start, end) => flip((lefts[start - first] + lefts[end - 1 - first] + widths[end - 1 - first]) / 2);
  const top = Math.max(0, ...tree.visible.map((at) => tree.heights[at]));
  const bottom = MARGIN + 20 + top * LEVEL;
  const height = (at) => MARGIN + BOX / 2 + (top - tree.heights[at]) * LEVEL;
  const kind = (node) => (node.label === null ? "latent" : `entity c${colour(node.label)}${muted(node.label) ? " muted" : ""}`);

  const latent = [];
  const solid = [];
  const boxes = [];
  for (const at of tree.visible) {
    const node = tree.nodes[at];
    const [x, y] = [middle(node.start, node.end), height(at)];
    if (tree.parents[at] !== null) {
      const over = tree.nodes[tree.parents[at]];
      const path = edge(middle(over.start, over.end), height(tree.parents[at]), x, y);
      (node.label === null ? latent : solid).push(draw("path", { class: `edge ${kind(node)}`, d: path }));
    }
    boxes.push(box(found, tree, at, captions.get(at), x, y, kind(node), differs.has(keyOf(node)), links));
  }
  const leaves = words.map((word, at) => {
    const x = middle(first + at, first + at + 1);
    const owner = tree.owners[at];
    if (owner !== null) {
      const node = tree.nodes[owner];
      const own = node.end - node.start === 1 && node.label !== null;
      const path = edge(middle(node.start, node.end), height(owner), x, bottom - 16);
      (own ? solid : latent).push(draw("path", { class: `edge ${own ? kind(node) : "latent"}`, d: path }));
    }
    return draw("text", { class: "leaf", x, y: bottom, "aria-hidden": "true" }, word);
  });
  svg.replaceChildren(...latent, ...solid, ...leaves, ...boxes);
  roving(boxes, (at, key) => step(tree, at, key));
  return { width: total, height: bottom + MARGIN };
}

/** A node: label and score in a frame; a small square for a latent one. */
function box(found, tree, at, caption, x, y, kind, differs, links) {
  const node = tree.nodes[at];
  const text = textOf(found, node.start, node.end);
  const level = tree.visible[0] === at ? 1 : depth(tree, at);
  const score = node.score === null ? "" : ` ${scoreText(node.score)}`;
  const said = `${node.label ?? "latent"}${score}: ${text}`;
  const wide = caption ? caption.width + 18 : 9;
  const high = caption ? BOX : 9;
  const rect = (grow, attributes) =>
    draw("rect", { x: x - wide / 2 - grow, y: y - high / 2 - grow, width: wide + 2 * grow, height: high + 2 * grow, ...attributes });
  const group = draw(
    "g",
    { class: `node ${kind}${differs ? " differs" : ""}`, role: "treeitem", "aria-level": level, "aria-label": said },
    rect(caption ? 2 : 8, { class: "hit" }),
    rect(0, { class: "frame", rx: caption ? BOX / 2 : 2 }),
  );
  if (caption) {
    const shown = caption.shown ? [draw("tspan", { class: "score", dx: "0.35em" }, caption.shown)] : [];
    group.append(draw("text", { x, y: y + 4, "aria-hidden": "true" }, draw("tspan", { class: "label" }, caption.label), ...shown));
  }
  links.tie(group, node);
  return group;
}

function depth(tree, at) {
  let level = 1;
  for (let over = tree.parents[at]; over !== null; over = tree.parents[over]) level++;
  return level;
}

/** From the middle of a node down, aside, and down: it passes over nothing but what belongs to its child. */
function edge(x, y, toX, toY) {
  const bus = y + LEVEL / 2 + 1;
  if (Math.abs(x - toX) < 0.01) return `M${x} ${y}V${toY}`;
  const corner = Math.min(CORNER, Math.abs(toX - x), Math.max(0, toY - bus));
  const before = toX - Math.sign(toX - x) * corner;
  return `M${x} ${y}V${bus}H${before}Q${toX} ${bus} ${toX} ${bus + corner}V${toY}`;
}

/** Arrow keys: up to the node above, down to its first child, left and right along its siblings. */
function step(tree, number, key) {
  const at = tree.visible[number];
  const place = (one) => tree.visible.indexOf(one);
  if (key === "Home") return 0;
  if (key === "ArrowUp") return tree.parents[at] === null ? -1 : place(tree.parents[at]);
  if (key === "ArrowDown") return tree.visible.findIndex((one) => tree.parents[one] === at);
  const siblings = tree.visible.filter((one) => tree.parents[one] === tree.parents[at]);
  const move = key === "ArrowRight" ? 1 : key === "ArrowLeft" ? -1 : 0;
  return move ? place(siblings[siblings.indexOf(at) + move]) : -1;
}

/** The tree as brackets, for those who do not see it, and to copy. */
export function treeText(found, sentence, given) {
  const tree = treeOf(sentence.start, sentence.end, given);
  const children = new Map(tree.visible.map((at) => [at, []]));
  const roots = [];
  for (const at of tree.visible) (tree.parents[at] === null ? roots : children.get(tree.parents[at])).push(at);
  const plain = (start, end) => (start < end ? [textOf(found, start, end)] : []);
  const said = (at) => {
    const node = tree.nodes[at];
    const name = node.label === null ? "" : `${node.label}${node.score === null ? "" : ` ${percent(node.score)}`} `;
    return `[${name}${inside(children.get(at), node.start, node.end)}]`;
  };
  const inside = (ats, start, end) => {
    const parts = [];
    let from = start;
    for (const at of ats) {
      parts.push(...plain(from, tree.nodes[at].start), said(at));
      from = tree.nodes[at].end;
    }
    return [...parts, ...plain(from, end)].join(" ");
  };
  return inside(roots, sentence.start, sentence.end);
}
