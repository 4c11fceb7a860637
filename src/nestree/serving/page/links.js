// Pointing at a thing in text, tree or table brings it out in all three.

import { keyOf } from "./spans.js";

export class Links {
  #listeners = [];
  #active = null;

  /** `listener(item)`: what is pointed at, or null. */
  listen(listener) {
    this.#listeners.push(listener);
  }

  /** Brings out a span or node `{start, end, label}`; null: nothing. */
  show(item) {
    const key = item && keyOf(item);
    if (key === (this.#active && keyOf(this.#active))) return;
    this.#active = item;
    for (const one of document.querySelectorAll("[data-key].active")) one.classList.remove("active");
    this.mark();
    for (const listener of this.#listeners) listener(item);
  }

  /** Once more, after something was drawn again. */
  mark() {
    if (!this.#active) return;
    const key = CSS.escape(keyOf(this.#active));
    for (const one of document.querySelectorAll(`[data-key="${key}"]`)) one.classList.add("active");
  }

  get active() {
    return this.#active;
  }

  /** An element stands for an item: hovering and focusing it bring the item out. */
  tie(element, item) {
    element.dataset.key = keyOf(item);
    element.addEventListener("pointerenter", () => this.show(item));
    element.addEventListener("pointerleave", () => this.show(null));
    element.addEventListener("focus", () => this.show(item));
    element.addEventListener("blur", () => this.show(null));
  }
}
