// Elements, made without markup: whatever users wrote is text and stays text.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children. `class`, `data-…`, `aria-…` are attributes; `on…` functions are listeners. */
export function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for parts of a drawing. */
export function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((one) => one !== null && one !== undefined));
  return element;
}

export const byId = (id) => document.getElementById(id);

const canvas = document.createElement("canvas").getContext("2d");

/** How wide text is in a typeface, in pixels. */
export function width(text, font) {
  if (canvas.font !== font) canvas.font = font;
  return canvas.measureText(text).width;
}

/** The typeface of an element, as a canvas wants it. */
export function fontOf(element) {
  const style = getComputedStyle(element);
  return `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
}

/** The same typeface, bold. */
export const bold = (font) => font.replace(/^(\S+) \S+/, "$1 600");

/** A function that runs when it was not called again for a while. */
export function debounced(wait, action) {
  let timer = 0;
  const later = (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...given), wait);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}

/** A score with two digits. What is not quite certain does not look so. */
export function scoreText(score) {
  if (score === null || score === undefined) return "";
  if (score >= 0.995 && score < 1) return ">0.99";
  if (score > 0 && score < 0.005) return "<0.01";
  return score.toFixed(2);
}

/** A probability in percent; small ones are not rounded to nothing. */
export function percent(share) {
  if (share > 0 && share < 0.001) return "<0.1%";
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)}%`;
}

/** One thing, many things. */
export const counted = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

/** What the service says as a sentence, which another one may follow. */
export function sentence(said) {
  const text = said.trim();
  return text && `${text[0].toUpperCase()}${text.slice(1)}${/[.!?…]$/.test(text) ? "" : "."}`;
}

/** Puts text on the clipboard, and says so on the button for a moment. */
export async function copy(text, button) {
  const before = button.dataset.name ?? button.textContent;
  button.dataset.name = before;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = copiedByHand(text) ? "Copied" : "The browser does not allow it";
  }
  setTimeout(() => (button.textContent = before), 1500);
}

// Pages that do not come over TLS have no clipboard of the modern kind.
function copiedByHand(text) {
  const box = make("textarea", { class: "unseen", "aria-hidden": "true" });
  box.value = text;
  document.body.append(box);
  box.select();
  const done = document.execCommand("copy");
  box.remove();
  return done;
}

/** Only one of the elements is reached by Tab; arrow keys reach the others. `step(index, key)` says which is next. */
export function roving(elements, step) {
  elements.forEach((element, at) => {
    element.setAttribute("tabindex", at ? "-1" : "0");
    element.addEventListener("focus", () => {
      for (const other of elements) other.setAttribute("tabindex", other === element ? "0" : "-1");
    });
    element.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const next = elements[step(at, event.key)];
      if (!next) return;
      event.preventDefault();
      next.focus();
    });
  });
}
