// The page: what is typed goes to the service, what comes back is drawn. Everything else is in the other modules.

import { byId, copy, counted, debounced, make, scoreText, sentence } from "./elements.js";
import { examplesFor } from "./examples.js";
import { wellFormed } from "./files.js";
import { FilesPanel } from "./filespanel.js";
import { askForKey } from "./keydialog.js";
import { Links } from "./links.js";
import { Reading } from "./reading.js";
import { askAgain, call, hasKey, onKeyWanted, pause } from "./service.js";
import { textOf, understood, withoutLabels } from "./spans.js";
import { Table } from "./table.js";
import { TreePanel } from "./treepanel.js";

const TYPING = 200; // milliseconds without a key before the service is asked
const LOOKING = 300; // and before it is asked for the next best trees, which take longer
const ALTERNATIVES = 3;
const SHORT = 4000; // characters of a text whose sentences have next best trees

const state = { model: null, answer: null, found: null, hidden: new Set(), threshold: null, flat: null };
const links = new Links();
const reading = new Reading(byId("reading"), links);
const panel = new TreePanel(links);
const table = new Table(byId("table"), links, (entity) => reading.focus(entity));
const files = new FilesPanel(settings, modelForFiles, open);

const colour = (label) => Math.max(0, state.model.labels.indexOf(label)) % 8;
const text = byId("text");
let request = new AbortController();

// --- Asking ---

/** What is set for every request; nothing where the model decides. */
function settings() {
  const given = {};
  if (state.threshold !== null) given.threshold = state.threshold;
  if (state.flat !== null) given.flat = state.flat;
  return given;
}

async function ask() {
  request.abort();
  request = new AbortController();
  const { signal } = request;
  showCurl();
  if (!(await modelKnown(signal))) return;
  const body = { text: wellFormed(text.value), ...settings() };
  if (state.model.trees) body.trees = true;
  byId("reading").setAttribute("aria-busy", "true");
  const began = performance.now();
  const answer = await patiently("v1/predict", body, signal);
  if (!answer) return;
  byId("reading").removeAttribute("aria-busy");
  state.answer = answer.documents[0];
  state.found = understood(state.answer);
  showProblem(null);
  showCurl(); // there may be a key by now
  redraw(performance.now() - began);
  if (body.trees && state.model.limits.alternatives > 0) await askForAlternatives(body, signal);
}

async function askForAlternatives(body, signal) {
  if (body.text.length > SHORT) {
    panel.offer([]); // they take long, and nobody looks at those of a hundred sentences
    return;
  }
  const wanted = { ...body, alternatives: Math.min(ALTERNATIVES, state.model.limits.alternatives) };
  try {
    await pause(LOOKING / 1000, signal);
    const answer = await call("v1/predict", wanted, { signal });
    if (!signal.aborted) panel.offer(understood(answer.documents[0]).alternatives);
  } catch {
    // What was found stands without them. A service that is too busy now is asked again with the next text.
  }
}

/** The answer; null if it is not wanted any more, or if there is none: then the page says why, and keeps what it shows. */
async function patiently(path, body, signal) {
  for (;;) {
    try {
      const answer = await call(path, body, { signal });
      return signal.aborted ? null : answer;
    } catch (error) {
      if (signal.aborted || error.name === "AbortError") return null;
      byId("reading").removeAttribute("aria-busy");
      showProblem(error);
      if (error.status !== 503) return null;
      const wait = error.retryAfter ?? 2;
      await pause(wait, signal).catch(() => null);
      if (signal.aborted) return null;
    }
  }
}

/** What the service says of its model; null if it is not wanted any more, or if the page says why there is none. */
async function modelKnown(signal) {
  if (state.model) return state.model;
  const model = await patiently("v1/model", null, signal);
  if (!model || state.model) return state.model;
  state.model = model;
  introduce(model);
  return model;
}

/** The same; a text that could not be read for the want of it is read now. */
async function modelForFiles(signal) {
  const known = state.model !== null;
  const model = await modelKnown(signal);
  if (model && !known) ask();
  return model;
}

const soon = debounced(TYPING, ask);

/** A text from elsewhere comes into the box. */
function open(given) {
  text.value = given;
  soon.cancel();
  ask();
  text.scrollIntoView({ block: "nearest" });
}

// --- Showing ---

function redraw(took = null) {
  if (!state.found) return;
  const shown = state.found.entities.filter((one) => !state.hidden.has(one.label));
  reading.draw(state.found, shown, colour);
  panel.draw(state.found, colour, state.hidden);
  table.draw(shown, colour);
  countLabels();
  const hidden = state.found.entities.length - shown.length;
  const depth = Math.max(0, ...shown.map((one) => one.depth));
  const parts = [counted(shown.length, "entity", "entities")];
  if (depth > 1) parts.push(`${depth} levels deep`);
  if (hidden) parts.push(`${hidden} hidden`);
  if (state.found.windowed.length) parts.push(`${counted(state.found.windowed.length, "long sentence")} read in windows`);
  if (took !== null) state.took = took;
  byId("status").textContent = `${parts.join(", ")} · ${Math.round(state.took)} ms`;
  const [count, most] = [[...text.value].length, state.model.limits.characters];
  byId("count").hidden = count < 0.8 * most;
  byId("count").textContent = `${count.toLocaleString("en")} of ${most.toLocaleString("en")} characters`;
}

function showProblem(problem) {
  const box = byId("error");
  box.hidden = !problem;
  if (!problem) {
    box.replaceChildren();
    return;
  }
  const what = sentence(problem.detail || problem.title || "Something went wrong.");
  const wait = problem.status === 503 ? ` Trying again in ${Math.ceil(problem.retryAfter ?? 2)} s.` : "";
  const advice = problem.status === 401 ? keyButton() : (problem.advice ?? "");
  box.replaceChildren(make("b", {}, what), " ", advice, wait);
}

function keyButton() {
  const again = () => {
    askAgain();
    ask();
  };
  return make("button", { type: "button", onclick: again }, "Enter a key");
}

function introduce(model) {
  const trees = model.trees ? "with trees" : "without trees";
  const encoder = /^[/\\.]/.test(model.encoder) ? model.encoder.split(/[/\\]/).at(-1) : model.encoder; // a folder, or a name
  byId("model-line").textContent = `${model.name} · ${counted(model.labels.length, "label")}, ${trees} · ${encoder}`;
  byId("version").textContent = `nestree ${model.version}`;
  document.title = `nestree: ${model.name}`;
  byId("card-open").hidden = !model.card;
  byId("card").textContent = model.card ?? "";
  if (typeof model.threshold === "number") byId("threshold").value = model.threshold;
  byId("labels").replaceChildren(...model.labels.map(labelBox));
  const examples = examplesFor(model.labels);
  byId("examples").replaceChildren(
    ...examples.map((one) => make("button", { type: "button", onclick: () => open(one.text) }, one.name)),
  );
  if (!text.value) {
    text.value = examples[0].text;
    showCurl();
  }
}

function labelBox(label) {
  const input = make("input", { type: "checkbox", checked: true, value: label });
  input.addEventListener("change", () => {
    if (input.checked) state.hidden.delete(label);
    else state.hidden.add(label);
    redraw();
  });
  const swatch = make("span", { class: `swatch c${colour(label)}`, "aria-hidden": "true" });
  return make("label", {}, input, swatch, make("span", {}, label), make("span", { class: "number", "data-label": label }));
}

function countLabels() {
  const counts = new Map();
  for (const { label } of state.found.entities) counts.set(label, (counts.get(label) ?? 0) + 1);
  for (const one of document.querySelectorAll("#labels .number")) one.textContent = counts.get(one.dataset.label) ?? "";
}

function showDetail(item) {
  const line = byId("detail");
  if (!item || !state.found || item.end > state.found.words.length) {
    line.replaceChildren();
    return;
  }
  const entity = state.found.entities.find((one) => one.start === item.start && one.end === item.end && one.label === item.label);
  const over = entity && entity.parent !== null ? state.found.entities[entity.parent] : null;
  const share = panel.share(item);
  const score = entity?.score ?? item.score;
  const parts = [
    score === null || score === undefined ? "" : ` ${scoreText(score)}`,
    over ? ` · within ${over.label} “\u2068${over.text}\u2069”` : "",
    share ? ` · in ${share.in} of the ${share.among} most probable trees` : "",
  ];
  const words = make("bdi", {}, textOf(state.found, item.start, item.end));
  line.replaceChildren(make("b", {}, item.label ?? "latent"), " ", words, parts.join(""));
}

function showCurl() {
  const body = JSON.stringify({ text: text.value || "The mayor of Leeds resigned.", ...settings() });
  const quoted = body.replaceAll("'", "'\\''");
  const lines = [`curl ${new URL("v1/predict", document.baseURI)}`, "  -H 'Content-Type: application/json'", `  -d '${quoted}'`];
  if (hasKey()) lines.splice(1, 0, '  -H "Authorization: Bearer $KEY"');
  byId("curl").textContent = lines.join(" \\\n");
}

// --- Controls ---

text.addEventListener("input", soon);
byId("flat").addEventListener("change", (event) => {
  state.flat = event.target.value || null;
  ask();
});

function setThreshold(value) {
  state.threshold = value;
  const shown = value === null ? "model’s own" : value.toFixed(2);
  byId("threshold-value").textContent = shown;
  byId("threshold").setAttribute("aria-valuetext", shown);
  byId("threshold-reset").hidden = value === null;
}

byId("threshold").addEventListener("input", (event) => {
  setThreshold(Number(event.target.value));
  soon();
});
byId("threshold-reset").addEventListener("click", () => {
  setThreshold(null);
  byId("threshold").value = typeof state.model?.threshold === "number" ? state.model.threshold : 0.5;
  byId("threshold").focus();
  ask();
});
byId("copy").addEventListener("click", (event) => {
  if (!state.answer) return;
  const { text: of, entities } = state.answer;
  copy(JSON.stringify({ text: of, entities: withoutLabels(entities, state.hidden) }, null, 2), event.target);
});
byId("copy-curl").addEventListener("click", (event) => copy(byId("curl").textContent, event.target));
byId("card-open").addEventListener("click", () => byId("card-dialog").showModal());
byId("card-close").addEventListener("click", () => byId("card-dialog").close());
links.listen(showDetail);

onKeyWanted(askForKey);
setThreshold(null);
ask();
