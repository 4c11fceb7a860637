// The text with its entities as stacked brackets beneath the words, which wrap with the text.
//
// A word that has n rows of brackets beneath it makes its line so much taller, by CSS alone. Which words share a line, and
// where the brackets go, is read off the laid-out text, once it stands and whenever its width changes.

import { bold, fontOf, make, roving, scoreText, width } from "./elements.js";
import { keyOf, levels } from "./spans.js";

export class Reading {
  #box;
  #links;
  #pieces = [];
  #marks = [];
  #layer;
  #tints;
  #width = 0;

  constructor(box, links) {
    this.#box = box;
    this.#links = links;
    links.listen((item) => this.#tint(item));
    new ResizeObserver(() => {
      if (Math.abs(box.clientWidth - this.#width) > 0.5) this.#place();
    }).observe(box);
    document.fonts?.ready.then(() => this.#place());
  }

  /** Draws a document; `entities` are those of its entities that are to be seen, `colour` gives a label's number. */
  draw(found, entities, colour) {
    this.found = found;
    this.#pieces = pieces(found, entities);
    this.#tints = make("div", { class: "tints", "aria-hidden": "true" });
    this.#layer = make("div", { class: "marks", role: "group", "aria-label": "Entities in the text" });
    const paragraphs = this.#paragraphs(entities);
    this.#box.replaceChildren(this.#tints, ...paragraphs, this.#layer);
    this.#marks = entities.map((entity) => this.#mark(entity, colour(entity.label), entities));
    this.#layer.append(...this.#marks.map((one) => one.button));
    const buttons = this.#marks.map((one) => one.button);
    roving(buttons, (at, key) => step(entities, at, key));
    this.#widen();
    this.#place();
    this.#links.mark();
    this.#tint(this.#links.active);
  }

  /** The button of an entity. */
  focus(item) {
    this.#marks.find((one) => keyOf(one.entity) === keyOf(item))?.button.focus();
  }

  #paragraphs(entities) {
    const lines = [];
    let line = null;
    for (const piece of this.#pieces) {
      if (piece.text === "\n") {
        line ??= lines.push(make("p", { dir: "auto" })) && lines.at(-1);
        line.append("\n");
        line = null;
        continue;
      }
      if (!line) {
        line = make("p", { dir: "auto" });
        lines.push(line);
      }
      piece.inner = make("span", { class: "word" }, piece.text);
      piece.line = line;
      if (!piece.covering.length) {
        line.append(piece.inner);
        continue;
      }
      const outer = make("span", { class: "covered" }, piece.inner);
      piece.outer = outer;
      const innermost = entities[piece.covering[0]];
      outer.addEventListener("pointerenter", () => this.#links.show(innermost));
      outer.addEventListener("pointerleave", () => this.#links.show(null));
      line.append(outer);
    }
    return lines;
  }

  #mark(entity, colour, entities) {
    const within = entity.parent === null ? null : entities.find((one) => one.number === entity.parent);
    const name = `${entity.label} ${scoreText(entity.score)}: ${entity.text}${within ? `, within ${within.label} ${within.text}` : ""}`;
    const caption = make("span", { class: "caption" }, make("b", {}, entity.label));
    const button = make("button", { type: "button", class: `mark c${colour}`, "aria-label": name }, caption);
    this.#links.tie(button, entity);
    return { entity, colour, button, caption, more: [], own: this.#of(entity) };
  }

  /** Short entities get the room that their label needs. */
  #widen() {
    if (!this.#marks.length) return;
    const font = fontOf(this.#box);
    const small = fontOf(this.#marks[0].caption);
    const natural = this.#pieces.map((piece) => (piece.covering.length ? width(piece.text, font) : 0));
    const order = [...this.#marks].sort((a, b) => a.own.length - b.own.length);
    for (const mark of order) {
      mark.label = width(mark.entity.label, bold(small)) + 8; // and the space around it
      mark.score = width(` ${scoreText(mark.entity.score)}`, small);
      const have = mark.own.reduce((sum, at) => sum + natural[at], 0);
      const missing = mark.label - have;
      if (missing <= 0 || !mark.own.length) continue;
      const last = mark.own.at(-1);
      natural[last] += missing;
      const before = Number.parseFloat(this.#pieces[last].inner.style.paddingInlineEnd || "0");
      this.#pieces[last].inner.style.paddingInlineEnd = `${before + missing}px`;
    }
  }

  /** The numbers of the pieces of text that an entity consists of. */
  #of(entity) {
    const { start, end } = this.#range(entity);
    const found = [];
    let [low, high] = [0, this.#pieces.length]; // the first piece that is not before it
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#pieces[middle].start < start) low = middle + 1;
      else high = middle;
    }
    for (; low < this.#pieces.length && this.#pieces[low].end <= end; low++) if (this.#pieces[low].inner) found.push(low);
    return found;
  }

  #range({ start, end }) {
    return { start: this.found.words[start].start, end: this.found.words[end - 1].end };
  }

  /** Reads off where the text stands, makes room for the brackets of each line, and puts them there. */
  #place() {
    if (!this.#layer) return;
    this.#width = this.#box.clientWidth;
    const rows = this.#rows(this.#rects());
    this.#pieces.forEach((piece, at) => piece.outer?.style.setProperty("--rows", rows.most(at)));
    const lines = linesOf(this.#rects()); // the same lines, further apart
    const standing = this.#pieces.map(() => []); // of each piece, the lines that it stands on
    lines.forEach(({ rects }, line) => rects.forEach(({ piece, rect }) => standing[piece].push({ line, rect })));
    const origin = this.#layer.getBoundingClientRect();
    const style = getComputedStyle(this.#box);
    const [row, first] = ["--row", "--first"].map((name) => Number.parseFloat(style.getPropertyValue(name)));
    const directions = new Map(this.#marks.map(({ own }) => [this.#pieces[own[0]]?.line, "ltr"]));
    for (const line of directions.keys()) directions.set(line, line ? getComputedStyle(line).direction : "ltr");
    // From here on nothing is read, so that the browser lays out once.
    this.#marks.forEach((mark, number) => {
      const right = directions.get(this.#pieces[mark.own[0]]?.line) === "rtl";
      const byLine = new Map();
      for (const { line, rect } of mark.own.flatMap((at) => standing[at])) {
        if (!byLine.has(line)) byLine.set(line, []);
        byLine.get(line).push(rect);
      }
      const parts = [...byLine].flatMap(([line, rects]) => {
        const top = lines[line].bottom - origin.top + first + rows.of(line, number) * row;
        return joined(rects, right).map(({ left, right: end }) => ({ left: left - origin.left, width: end - left, top }));
      });
      this.#put(mark, parts, right);
    });
  }

  #rects() {
    return this.#pieces.map((piece) => (piece.outer ? [...piece.inner.getClientRects()] : []));
  }

  /** In each line, which row each entity has; and of each piece, how many rows are beneath it. */
  #rows(rects) {
    const covered = this.#pieces.map(() => 0);
    const found = linesOf(rects).map((line) => {
      const spans = new Map();
      for (const { piece } of line.rects) {
        for (const one of this.#pieces[piece].covering) {
          const span = spans.get(one) ?? { start: piece, end: piece + 1, entity: one };
          spans.set(one, { ...span, start: Math.min(span.start, piece), end: Math.max(span.end, piece + 1) });
        }
      }
      const order = [...spans.values()].sort((a, b) => a.entity - b.entity);
      const rows = new Map(levels(order).map((row, at) => [order[at].entity, row]));
      for (const { piece } of line.rects) {
        const own = this.#pieces[piece].covering.map((one) => rows.get(one) + 1);
        covered[piece] = Math.max(covered[piece], ...own);
      }
      return rows;
    });
    return { of: (line, entity) => found[line].get(entity) ?? 0, most: (piece) => covered[piece] };
  }

  #put(mark, parts, right) {
    for (const one of mark.more) one.remove();
    mark.more = parts.slice(1).map(() => make("span", { class: `mark c${mark.colour}`, "aria-hidden": "true" }));
    const elements = [mark.button, ...mark.more];
    parts.forEach((part, at) => {
      const element = elements[at];
      const [opens, ends] = [at > 0, at < parts.length - 1];
      element.classList.toggle("from-left", right ? ends : opens);
      element.classList.toggle("to-right", right ? opens : ends);
      element.dir = right ? "rtl" : "ltr";
      for (const name of ["left", "width", "top"]) element.style[name] = `${part[name]}px`;
      if (at) this.#links.tie(element, mark.entity);
    });
    this.#layer.append(...mark.more);
    mark.button.hidden = !parts.length;
    const named = captioned(parts, mark);
    const score = named.score ? [make("span", {}, ` ${scoreText(mark.entity.score)}`)] : [];
    mark.caption.replaceChildren(make("b", {}, mark.entity.label), ...score);
    elements[named.at]?.append(mark.caption);
  }

  /** Colours the words of an item; of latent nodes too. */
  #tint(item) {
    if (!this.#tints) return;
    this.#tints.replaceChildren();
    if (!item || item.end > this.found.words.length) return;
    const { start, end } = this.#range(item);
    const origin = this.#tints.getBoundingClientRect();
    const range = document.createRange();
    const rects = [];
    for (const piece of this.#pieces) {
      if (!piece.inner || piece.end <= start || piece.start >= end) continue;
      const whole = piece.start >= start && piece.end <= end;
      range.setStart(piece.inner.firstChild, Math.max(0, start - piece.start));
      range.setEnd(piece.inner.firstChild, Math.min(piece.text.length, end - piece.start));
      rects.push(...(whole ? piece.inner : range).getClientRects()); // the first with the room for labels
    }
    const mark = this.#marks.find((one) => keyOf(one.entity) === keyOf(item));
    for (const { rects: parts, top, bottom } of linesOf([rects])) {
      for (const { left, right } of joined(parts.map((one) => one.rect), false)) {
        const tint = make("div", { class: mark ? `tint c${mark.colour}` : "tint" });
        const place = { left: left - origin.left, top: top - origin.top, width: right - left, height: bottom - top };
        for (const [name, value] of Object.entries(place)) tint.style[name] = `${value}px`;
        this.#tints.append(tint);
      }
    }
  }
}

/**
 * The text, cut wherever an entity or a line begins or ends, and within entities at every word; each piece with the
 * numbers of the entities that cover it, inner ones first.
 */
function pieces(found, entities) {
  const { text, words } = found;
  const cuts = new Set([0, text.length]);
  const spans = entities.map(({ start, end }) => ({ start: words[start].start, end: words[end - 1].end }));
  for (const { start, end } of spans) cuts.add(start).add(end);
  for (const { start, end } of entities) for (let at = start; at < end; at++) cuts.add(words[at].start);
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) cuts.add(at).add(at + 1);
  const places = [...cuts].sort((a, b) => a - b);
  const order = spans.map((_, at) => at).sort((a, b) => spans[a].start - spans[b].start);
  const result = [];
  let open = [];
  let next = 0;
  for (let at = 0; at + 1 < places.length; at++) {
    const [start, end] = [places[at], places[at + 1]];
    while (next < order.length && spans[order[next]].start <= start) open.push(order[next++]);
    open = open.filter((one) => spans[one].end > start);
    const length = (one) => spans[one].end - spans[one].start;
    const covering = [...open].sort((a, b) => length(a) - length(b) || b - a);
    result.push({ start, end, text: text.slice(start, end), covering });
  }
  return result;
}

/** Rectangles of pieces by the line that they stand on: `[{top, bottom, rects: [{piece, rect}]}]`, from the top. */
function linesOf(rects) {
  const lines = [];
  rects.forEach((own, piece) => {
    for (const rect of own) {
      if (rect.width < 0.5) continue;
      const middle = (rect.top + rect.bottom) / 2;
      // Text goes down the page: the line is one of the last ones, if it is there.
      const line = lines.findLast((one) => one.top < middle && middle < one.bottom);
      if (line) line.rects.push({ piece, rect });
      else lines.push({ top: rect.top, bottom: rect.bottom, rects: [{ piece, rect }] });
    }
  });
  return lines;
}

/** Rectangles of one line as `{left, right}`, one where they touch; in the order in which the text is read. */
function joined(rects, backwards) {
  const result = [];
  for (const { left, right } of [...rects].sort((a, b) => a.left - b.left)) {
    const last = result.at(-1);
    if (last && left - last.right < 1.5) last.right = Math.max(last.right, right);
    else result.push({ left, right });
  }
  return backwards ? result.reverse() : result;
}

/** Where a label goes: to the first part with room for label and score, else for the label, else to the widest. */
function captioned(parts, mark) {
  const room = parts.map((part) => part.width);
  const both = room.findIndex((one) => one >= mark.label + mark.score);
  if (both >= 0) return { at: both, score: true };
  const label = room.findIndex((one) => one >= mark.label - 1);
  return { at: label >= 0 ? label : room.indexOf(Math.max(...room)), score: false };
}

/** Arrow keys: left and right along the text, up to the entity around, down to the first one within. */
function step(entities, at, key) {
  if (key === "ArrowRight") return at + 1;
  if (key === "ArrowLeft") return at - 1;
  if (key === "Home") return 0;
  if (key === "End") return entities.length - 1;
  if (key === "ArrowUp") return entities.findIndex((one) => one.number === entities[at].parent);
  if (key === "ArrowDown") return entities.findIndex((one) => one.parent === entities[at].number);
  return -1;
}
