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

/** `ask(refused)` asks the user for a key; several requests that wait for one share the question. */
export function onKeyWanted(ask) {
  askForKey = ask;
}

function wantedKey(refused) {
  asking ??= askForKey(refused).finally(() => (asking = null));
  return asking;
}

/** GET, or with a body POST, JSON; asks for a key where one is wanted. */
export async function call(path, body = null, { signal } = {}) {
  for (;;) {
    const key = sessionStorage.getItem(KEY);
    const answer = await send(path, body, key, signal);
    if (answer.ok) return answer.json();
    const problem = await problemOf(answer);
    if (problem.status !== 401 || !askForKey) throw problem;
    if (sessionStorage.getItem(KEY) !== key) continue; // another request was quicker to ask
    const given = await wantedKey(key !== null);
    if (given === null) throw problem;
    sessionStorage.setItem(KEY, given);
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

async function problemOf(answer) {
  const retryAfter = Number.parseFloat(answer.headers.get("retry-after"));
  const given = { status: answer.status, retryAfter: Number.isFinite(retryAfter) ? retryAfter : null };
  try {
    const { title, detail, advice, where } = await answer.json();
    return new Problem({ ...given, title, detail, advice, where });
  } catch {
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
