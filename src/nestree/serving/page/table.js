// All entities in a table that can be sorted.

import { make, scoreText } from "./elements.js";

const COLUMNS = [
  { name: "Entity", value: (one) => one.from, kind: null },
  { name: "Label", value: (one) => one.label, kind: null },
  { name: "Score", value: (one) => one.score, kind: "number" },
  { name: "Characters", value: (one) => one.from, kind: "number place" },
  { name: "Depth", value: (one) => one.depth, kind: "number" },
];
const FIRST = 300; // rows that are drawn before somebody asks for all

export class Table {
  #box;
  #links;
  #open;
  #by = null;
  #down = false;
  #given = [[], () => 0];

  /** `open(entity)`: somebody wants to see an entity in the text. */
  constructor(box, links, open) {
    this.#box = box;
    this.#links = links;
    this.#open = open;
  }

  draw(entities, colour, all = false) {
    this.#given = [entities, colour];
    if (!entities.length) {
      this.#box.replaceChildren(make("p", { class: "none" }, "No entities."));
      return;
    }
    const rows = this.#sorted(entities);
    const shown = all ? rows : rows.slice(0, FIRST);
    const head = make("tr", {}, ...COLUMNS.map((column, at) => this.#heading(column, at)));
    const body = make("tbody", {}, ...shown.map((one) => this.#row(one, colour(one.label))));
    const caption = make("caption", { class: "unseen" }, "Entities with their scores; the headings sort");
    this.#box.replaceChildren(make("table", {}, caption, make("thead", {}, head), body));
    if (shown.length < rows.length) {
      const more = () => this.draw(entities, colour, true);
      this.#box.append(make("button", { type: "button", class: "plain", onclick: more }, `Show all ${rows.length}`));
    }
    this.#links.mark();
  }

  #sorted(entities) {
    if (this.#by === null) return entities;
    const { value } = COLUMNS[this.#by];
    const sign = this.#down ? -1 : 1;
    const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
    return [...entities].sort((a, b) => sign * compare(value(a), value(b)) || a.number - b.number);
  }

  #heading(column, at) {
    const sort = at === this.#by ? (this.#down ? "descending" : "ascending") : "none";
    const click = () => {
      this.#down = at === this.#by ? !this.#down : column.name === "Score";
      this.#by = at;
      this.draw(...this.#given);
      this.#box.querySelectorAll("th button")[at].focus();
    };
    const arrow = make("span", { class: "arrow", "aria-hidden": "true" }, { none: "", ascending: "↑", descending: "↓" }[sort]);
    const button = make("button", { type: "button", onclick: click }, column.name, arrow);
    return make("th", { scope: "col", "aria-sort": sort, class: column.kind }, button);
  }

  #row(entity, colour) {
    const open = make("button", { type: "button", class: "entity", dir: "auto", onclick: () => this.#open(entity) }, entity.text);
    const bar = make("span", { class: `bar c${colour}`, "aria-hidden": "true" });
    bar.style.setProperty("--share", entity.score);
    const swatch = make("span", { class: `swatch c${colour}`, "aria-hidden": "true" });
    const row = make(
      "tr",
      {},
      make("td", {}, open),
      make("td", {}, swatch, entity.label),
      make("td", { class: "number", title: String(entity.score) }, bar, scoreText(entity.score)),
      make("td", { class: "number place" }, `${entity.from}–${entity.to}`),
      make("td", { class: "number" }, String(entity.depth)),
    );
    this.#links.tie(row, entity);
    open.addEventListener("focus", () => this.#links.show(entity));
    open.addEventListener("blur", () => this.#links.show(null));
    return row;
  }
}
