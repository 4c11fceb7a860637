// A file as texts, and the texts through the service in requests that it accepts. No drawing here.

import { sentence } from "./elements.js";
import { Problem, call, pause } from "./service.js";

const TEXTS_AT_ONCE = 32; // so that progress is seen, and others get their turn
const PATIENCE = 40; // times that a busy service is asked again for the same texts
const ATTEMPTS = 3; // the same where it does not answer at all

/** The texts of a file: `{items: [{line, text | tokens, id, meta}], problems: [string]}`. */
export function itemsOf(name, content, split) {
  return /\.(jsonl|ndjson)$/i.test(name) ? ofJsonLines(content) : { items: ofText(content, split), problems: [] };
}

function ofText(content, split) {
  const items = [];
  let block = null;
  content.split(/\r\n|\r|\n/).forEach((line, at) => {
    const empty = !line.trim();
    if (split === "line" || empty) block = null;
    if (empty) return;
    if (block) block.text += `\n${line}`;
    else items.push((block = { line: at + 1, text: line }));
  });
  return items;
}

function ofJsonLines(content) {
  const items = [];
  const problems = [];
  content.split(/\r?\n/).forEach((line, at) => {
    if (!line.trim()) return;
    const item = { line: at + 1 };
    const wrong = readLine(line, item);
    if (wrong) problems.push(`Line ${at + 1} ${wrong}`);
    else items.push(item);
  });
  return { items, problems };
}

function readLine(line, item) {
  let given;
  try {
    given = JSON.parse(line);
  } catch {
    return "is not JSON; it was left out.";
  }
  if (given === null || typeof given !== "object" || Array.isArray(given)) return "is no JSON object; it was left out.";
  if (typeof given.text === "string") item.text = given.text;
  else if (Array.isArray(given.tokens) && given.tokens.every((one) => typeof one === "string")) item.tokens = given.tokens;
  else return 'has neither a "text" (a string) nor "tokens" (a list of strings); it was left out.';
  if (given.id !== undefined) item.id = given.id;
  if (given.meta !== undefined) item.meta = given.meta;
  return null;
}

const bytes = (value) => new TextEncoder().encode(JSON.stringify(value)).length;

/** Why the service would not take an item; null if it would. */
function refused(item, limits) {
  if (item.tokens && item.tokens.length > limits.words) {
    return `has ${item.tokens.length.toLocaleString("en")} words, and the service takes ${limits.words.toLocaleString("en")}; it was left out. Split it into sentences.`;
  }
  const length = item.tokens ? 0 : [...item.text].length;
  if (length > limits.characters) {
    return `has ${length.toLocaleString("en")} characters, and the service takes ${limits.characters.toLocaleString("en")}; it was left out. Split it into shorter texts.`;
  }
  return bytes(item.tokens ?? item.text) + 300 > limits.request_bytes ? "is too large for a request; it was left out." : null;
}

/** How many items from `from` on go into one request: of one kind, within the limits. */
function together(items, from, limits) {
  const most = Math.min(limits.texts, TEXTS_AT_ONCE);
  const room = Math.min(limits.request_bytes - 300, 200_000);
  const words = Math.max(1, limits.queue_words / 4);
  let [size, count, number] = [0, 0, 0];
  while (from + number < items.length && number < most) {
    const item = items[from + number];
    if (Boolean(item.tokens) !== Boolean(items[from].tokens)) break;
    size += bytes(item.tokens ?? item.text) + 1;
    count += item.tokens?.length ?? item.text.length / 4;
    if (number && (size > room || count > words)) break;
    number++;
  }
  return number;
}

/** A file on its way through the service. It can be cancelled and gone on with; what is done stays. */
export class Job {
  done = []; // {item, document}
  problems;
  running = false;
  #left;
  #abort = null;

  /** `options`: threshold and flat of all requests; `tell(message)` is called after every change. */
  constructor({ items, problems }, limits, options, tell) {
    this.limits = limits;
    this.options = options;
    this.tell = tell;
    this.problems = [...problems];
    this.#left = items.filter((item) => {
      const why = refused(item, limits);
      if (why) this.problems.push(`Line ${item.line} ${why}`);
      return !why;
    });
    this.total = this.#left.length;
  }

  get finished() {
    return !this.#left.length;
  }

  cancel() {
    this.#abort?.abort();
  }

  /** Goes through what is left. Returns null, or the error that ended it. */
  async run() {
    this.running = true;
    this.#abort = new AbortController();
    try {
      while (this.#left.length) {
        this.tell("");
        await this.#next();
      }
      return null;
    } catch (error) {
      return error;
    } finally {
      this.running = false;
      this.tell("");
    }
  }

  async #next() {
    const number = together(this.#left, 0, this.limits);
    const items = this.#left.slice(0, number);
    const kind = items[0].tokens ? "tokens" : "texts";
    const body = { [kind]: items.map((one) => one.tokens ?? wellFormed(one.text)), ...this.options };
    let answer;
    try {
      answer = await this.#patiently(body);
    } catch (error) {
      const at = /^\/(?:texts|tokens)\/(\d+)/.exec(error.where ?? "")?.[1];
      if (error.status !== 422 || at === undefined || !items[at]) throw error;
      this.problems.push(`Line ${items[at].line}: ${sentence(error.detail)} It was left out.`);
      this.#left.splice(Number(at), 1);
      this.total--;
      return;
    }
    items.forEach((item, at) => this.done.push({ item, document: answer.documents[at] }));
    this.#left.splice(0, number);
  }

  async #patiently(body) {
    const { signal } = this.#abort;
    for (let [busy, silent] = [0, 0]; ; ) {
      try {
        return await call("v1/predict", body, { signal });
      } catch (error) {
        const again = error.status === 503 ? ++busy < PATIENCE : error.status === 0 && ++silent < ATTEMPTS;
        if (!(error instanceof Problem) || !again) throw error;
        const wait = error.retryAfter ?? 2 ** silent;
        this.tell(`The service is ${error.status ? "busy" : "not answering"}; going on in ${Math.ceil(wait)} s.`);
        await pause(wait, signal);
      }
    }
  }

  /** What is done, as lines of nestree JSON Lines. */
  lines() {
    return this.done.map(({ item, document }) => `${JSON.stringify(asLine(item, document))}\n`);
  }
}

function asLine(item, document) {
  const entities = document.entities.map(({ start, end, label, score, text, depth, parent }) => ({
    ...{ start, end, label, score, text, depth, parent },
  }));
  const meta = document.windowed.length ? { ...item.meta, windowed: document.windowed } : item.meta;
  const line = item.id === undefined ? {} : { id: item.id };
  if (item.tokens) line.tokens = item.tokens;
  else line.text = document.text;
  line.entities = entities;
  if (meta !== undefined) line.meta = meta;
  return line;
}

/** Halves of characters that stand alone cannot travel as UTF-8. */
export const wellFormed = (text) => (text.toWellFormed ? text.toWellFormed() : text);
