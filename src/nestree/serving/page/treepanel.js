// The panel with a sentence's tree: which sentence, how large, and the next best trees.

import { byId, draw, make, percent } from "./elements.js";
import { difference, keyOf, textOf } from "./spans.js";
import { drawTree, treeText } from "./tree.js";

const STEP = 1.25;
const LIMITS = [0.2, 4];

export class TreePanel {
  #links;
  #box = byId("tree");
  #svg = draw("svg", { role: "tree", "aria-label": "The tree of the sentence" });
  #size = { width: 0, height: 0 };
  #zoom = null; // null: as large as fits
  #sentence = 0;
  #pinned = 0; // which tree is to be seen: 0 is what was found, others are alternatives
  #given = null;

  constructor(links) {
    this.#links = links;
    this.#box.append(this.#svg);
    links.listen((item) => this.#follow(item));
    byId("previous").addEventListener("click", () => this.go(this.#sentence - 1));
    byId("next").addEventListener("click", () => this.go(this.#sentence + 1));
    byId("zoom-in").addEventListener("click", () => this.zoom(STEP));
    byId("zoom-out").addEventListener("click", () => this.zoom(1 / STEP));
    byId("zoom-fit").addEventListener("click", () => this.zoom(null));
    this.#box.addEventListener("keydown", (event) => {
      const how = { "+": STEP, "=": STEP, "-": 1 / STEP, 0: null };
      if (event.altKey || event.metaKey || event.ctrlKey || !(event.key in how)) return;
      event.preventDefault();
      this.zoom(how[event.key]);
    });
    const wheel = (event) => {
      if (!event.ctrlKey) return; // without it, scrolling is scrolling
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 300), event);
    };
    this.#box.addEventListener("wheel", wheel, { passive: false });
    new ResizeObserver(() => this.#scale()).observe(this.#box);
  }

  /** Draws the trees of a document. `colour(label)`: its number; `hidden`: labels that are filtered out. */
  draw(found, colour, hidden) {
    const same = this.#given?.found.text === found.text;
    this.#given = { found, colour, hidden };
    byId("tree-section").hidden = !found.trees?.length;
    if (!found.trees?.length) return;
    if (!same) this.#pinned = 0;
    this.go(Math.min(this.#sentence, found.trees.length - 1));
  }

  /** The next best trees came later than the rest. */
  offer(alternatives) {
    if (!this.#given) return;
    this.#given.found.alternatives = alternatives;
    if (this.#given.found.trees?.length) this.#choices();
  }

  go(sentence) {
    const { trees } = this.#given.found;
    if (sentence !== this.#sentence) this.#pinned = 0;
    this.#sentence = Math.max(0, Math.min(sentence, trees.length - 1));
    byId("stepper").hidden = trees.length < 2;
    byId("sentence-number").textContent = `sentence ${this.#sentence + 1} of ${trees.length}`;
    byId("previous").disabled = this.#sentence === 0;
    byId("next").disabled = this.#sentence === trees.length - 1;
    this.#choices();
    this.#show(this.#pinned);
  }

  zoom(factor, at = null) {
    const before = this.#scaleNow();
    const zoom = factor === null ? null : Math.min(LIMITS[1], Math.max(LIMITS[0], before * factor));
    const box = this.#box.getBoundingClientRect();
    const x = at ? at.clientX - box.left : box.width / 2;
    const y = at ? at.clientY - box.top : box.height / 2;
    const [left, top] = [(this.#box.scrollLeft + x) / before, (this.#box.scrollTop + y) / before];
    this.#zoom = zoom;
    this.#scale();
    const after = this.#scaleNow();
    this.#box.scrollTo({ left: left * after - x, top: top * after - y, behavior: "instant" });
  }

  #trees() {
    const { found } = this.#given;
    const best = { nodes: found.trees[this.#sentence], probability: null };
    return [best, ...(found.alternatives?.[this.#sentence] ?? [])];
  }

  #show(number) {
    const { found, colour, hidden } = this.#given;
    const trees = this.#trees();
    const shown = trees[number] ?? trees[0];
    const sentence = found.sentences[this.#sentence];
    this.#svg.style.direction = directionOf(textOf(found, sentence.start, sentence.end));
    const { added } = difference(shown.nodes, trees[0].nodes);
    const how = { colour, muted: (label) => hidden.has(label), links: this.#links, differs: new Set(added.map(keyOf)) };
    this.#size = drawTree(this.#svg, found, sentence, shown.nodes, how);
    this.#svg.setAttribute("viewBox", `0 0 ${this.#size.width} ${this.#size.height}`);
    this.#scale();
    const words = treeText(found, sentence, shown.nodes);
    byId("tree-words").textContent = words;
    this.#links.mark();
  }

  /** A button for each of the best trees: hovering and focusing show it, pressing keeps it. */
  #choices() {
    const box = byId("alternatives");
    const trees = this.#trees();
    // Until they come, what was there stays, so that the page does not jump; it cannot be pressed.
    const waiting = this.#given.found.alternatives === null && !box.hidden;
    box.classList.toggle("waiting", waiting);
    box.inert = waiting;
    if (waiting) return;
    box.hidden = trees.length < 2;
    if (box.hidden) return;
    const best = trees.slice(1);
    const sum = best.reduce((total, one) => total + one.probability, 0);
    const help = `The ${best.length} most probable trees of this sentence have ${percent(sum)} of the probability; all others share the rest.`;
    box.replaceChildren(
      make("h3", { id: "alternatives-heading" }, "Next best trees"),
      make("p", { class: "help" }, best.length > 1 ? help : "There is no other tree."),
      make("div", { class: "choices", role: "group", "aria-labelledby": "alternatives-heading" }, ...this.#buttons(trees)),
    );
  }

  #buttons(trees) {
    const { found } = this.#given;
    // What was found is what is expected to have the fewest errors: mostly the best tree, not always.
    const same = trees.findIndex((one, at) => at && sameNodes(one.nodes, trees[0].nodes));
    const numbers = trees.map((_, at) => at).filter((at) => at !== same);
    if (this.#pinned === same) this.#pinned = 0;
    const buttons = numbers.map((number) => {
      const { nodes } = trees[number];
      const shared = number === 0 && same > 0 ? trees[same] : trees[number];
      const name = number ? `${ordinal(number)} tree` : same > 0 ? `found: the ${ordinal(same)} tree` : "found";
      const share = shared.probability === null ? null : make("span", { class: "share" }, ` ${percent(shared.probability)}`);
      const button = make(
        "button",
        { type: "button", "aria-pressed": String(number === this.#pinned) },
        make("span", { class: "which" }, name, share),
        make("span", { class: "differs", dir: "auto" }, number ? differenceText(found, nodes, trees[0].nodes) : "as drawn in the text"),
      );
      button.style.setProperty("--share", shared.probability ?? 0);
      const leave = () => this.#show(this.#pinned);
      button.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && this.#show(number));
      button.addEventListener("pointerleave", leave);
      button.addEventListener("focus", () => this.#show(number));
      button.addEventListener("blur", leave);
      button.addEventListener("click", () => {
        this.#pinned = number;
        buttons.forEach((one, at) => one.setAttribute("aria-pressed", String(numbers[at] === number)));
        this.#show(number);
      });
      return button;
    });
    return buttons;
  }

  /** In how many of the best trees an item is; null if that is not known. */
  share(item) {
    const { found } = this.#given ?? {};
    const at = found?.sentences.findIndex((one) => one.start <= item.start && item.end <= one.end);
    const trees = found?.alternatives?.[at];
    if (!trees?.length) return null;
    const key = keyOf(item);
    return { among: trees.length, in: trees.filter((one) => one.nodes.some((node) => keyOf(node) === key)).length };
  }

  #follow(item) {
    if (!item || !this.#given?.found.trees?.length) return;
    const { sentences } = this.#given.found;
    const at = sentences.findIndex((one) => one.start <= item.start && item.end <= one.end);
    if (at >= 0 && at !== this.#sentence) this.go(at);
    this.#uncover();
  }

  /** Scrolls the tree, not the page, to the node that is pointed at. */
  #uncover() {
    const node = this.#svg.querySelector(".node.active")?.getBoundingClientRect();
    if (!node) return;
    const box = this.#box.getBoundingClientRect();
    const beside = node.left < box.left || node.right > box.right;
    const beyond = node.top < box.top || node.bottom > box.bottom;
    if (!beside && !beyond) return;
    const left = this.#box.scrollLeft + (beside ? (node.left + node.right - box.left - box.right) / 2 : 0);
    const top = this.#box.scrollTop + (beyond ? (node.top + node.bottom - box.top - box.bottom) / 2 : 0);
    this.#box.scrollTo({ left, top, behavior: "instant" });
  }

  #scaleNow() {
    if (this.#zoom !== null) return this.#zoom;
    const room = this.#box.clientWidth;
    return room && this.#size.width ? Math.max(0.75, Math.min(1, room / this.#size.width)) : 1;
  }

  #scale() {
    const scale = this.#scaleNow();
    this.#svg.style.width = `${Math.floor(scale * this.#size.width)}px`;
    this.#svg.style.height = `${scale * this.#size.height}px`;
    byId("zoom-value").textContent = `${Math.round(100 * scale)}%`;
  }
}

const ordinal = (number) => ["", "best", "2nd", "3rd", "4th", "5th", "6th"][number] ?? `${number}th`;

const sameNodes = (nodes, others) => {
  const keys = new Set(others.map(keyOf));
  return nodes.length === others.length && nodes.every((one) => keys.has(keyOf(one)));
};

/** What a tree has that was not found, and the other way round: entities, or where these are the same latent nodes. */
function differenceText(found, nodes, others) {
  const { added, missing } = difference(nodes, others);
  const named = (sign) => (one) => `${sign} ${one.label ?? ""} “${textOf(found, one.start, one.end)}”`.replace("  ", " ");
  const parts = [...added.map(named("+")), ...missing.map(named("−"))];
  if (parts.length) return parts.join(", ");
  const before = new Set(others.map(keyOf));
  const latent = nodes.filter((one) => !before.has(keyOf(one))).map(named("+"));
  const more = latent.length > 3 ? ", …" : "";
  return `the same entities; latent: ${latent.slice(0, 3).join(", ")}${more}`;
}

/** As dir="auto" decides it: by the first letter. */
function directionOf(text) {
  const first = text.match(/\p{L}/u);
  return first && /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(first[0]) ? "rtl" : "ltr";
}
