// Requests to the service: keys, problems, waiting.

const KEY = "nestree-key";

/** What went wrong, as the service says it (application/problem+json), or as we do where it could not answer. */
export class Problem extends Error {
  constructor({ status = 0, title = "", detail = "", advice = "", where = null, retryAfter = null }) {
    super(detail || title);
    Object.assign(this, { status, title, detail, advice, where, retryAfter });
  }
}

let askForKey = null; // the page's: a promise of a key, or of null
let asking = null;
let declined = false;

/** `ask(refused)` asks the user for a key; several requests that wait for one share the question. */
export function onKeyWanted(ask) {
  askForKey = ask;
}

/** The user wants something done: who gave no key before is asked once more. */
export function askAgain() {
  declined = false;
}

/** Whether there is another key to try. Who does not want to give one is left alone, whatever else is under way. */
async function anotherKey(refused) {
  if (declined) return false;
  asking ??= askForKey(refused).finally(() => (asking = null));
  const given = await asking;
  declined = given === null;
  if (declined) sessionStorage.removeItem(KEY); // the service does not take it
  else sessionStorage.setItem(KEY, given);
  return !declined;
}

/** GET, or with a body POST, JSON; asks for a key where one is wanted. */
export async function call(path, body = null, { signal } = {}) {
  for (;;) {
    const key = sessionStorage.getItem(KEY);
    const answer = await send(path, body, key, signal);
    if (answer.ok) return contentOf(answer);
    const problem = await problemOf(answer);
    if (problem.status !== 401 || !askForKey) throw problem;
    if (sessionStorage.getItem(KEY) !== key) continue; // another request was quicker to ask
    if (!(await anotherKey(key !== null))) throw problem;
    signal?.throwIfAborted();
  }
}

async function send(path, body, key, signal) {
  const headers = { accept: "application/json" };
  if (body !== null) headers["content-type"] = "application/json";
  if (key !== null) headers.authorization = `Bearer ${key}`;
  const given = body === null ? undefined : typeof body === "string" ? body : JSON.stringify(body);
  try {
    return await fetch(path, { method: body === null ? "GET" : "POST", headers, body: given, signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ title: "No answer", detail: "The service does not answer.", advice: "Is it still running?" });
  }
}

async function contentOf(answer) {
  try {
    return await answer.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ title: "No answer", detail: "The answer of the service broke off, or is none of its own.", advice: "Try again." });
  }
}

async function problemOf(answer) {
  const retryAfter = Number.parseFloat(answer.headers.get("retry-after"));
  const given = { status: answer.status, retryAfter: Number.isFinite(retryAfter) ? retryAfter : null };
  try {
    const { title, detail, advice, where } = await answer.json();
    return new Problem({ ...given, title, detail, advice, where });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    // A proxy in between may answer with a page of its own.
    return new Problem({ ...given, detail: `The service answered with status ${answer.status}.` });
  }
}

/** Whether the user gave a key in this tab. */
export const hasKey = () => sessionStorage.getItem(KEY) !== null;

/** Waits; ends early, with the signal's error, when it is aborted. */
export function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, 1000 * seconds);
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
  });
}
