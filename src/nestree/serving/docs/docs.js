// The OpenAPI document as a page: what can be asked, what is answered, and a way to try it. All of it is text nodes.

const byId = (id) => document.getElementById(id);
let key = null;

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.filter((one) => one !== null));
  return element;
}

async function start() {
  const answer = await fetch("openapi.json", { headers: headers() });
  byId("key-form").hidden = answer.status !== 401;
  if (answer.status === 401) {
    byId("key-message").textContent = key === null ? "" : "The service does not know that key.";
    byId("key").focus();
    return;
  }
  if (!answer.ok) throw new Error(`openapi.json was answered with ${answer.status}.`);
  show(await answer.json());
}

function headers() {
  return key === null ? {} : { Authorization: `Bearer ${key}` };
}

function show(api) {
  byId("summary").textContent = `${api.info.summary ?? api.info.title} nestree ${api.info.version}.`;
  const operations = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, one]) => operation(api, path, method, one)),
  );
  byId("operations").replaceChildren(...operations);
}

function operation(api, path, method, one) {
  const body = one.requestBody?.content?.["application/json"]?.schema;
  const heading = make("h2", {}, make("span", { class: "method" }, method.toUpperCase()), make("code", {}, path));
  return make(
    "section",
    { id: one.operationId },
    heading,
    make("p", {}, one.description ?? one.summary ?? ""),
    body ? make("h3", {}, "Request") : null,
    body ? fields(api, body) : null,
    make("h3", {}, "Answers"),
    answers(api, one.responses),
    trial(api, path, method, body),
  );
}

function resolved(api, schema) {
  const name = schema.$ref?.split("/").at(-1);
  return name ? { name, ...api.components.schemas[name] } : schema;
}

/** A schema in a few words. */
function typed(api, schema) {
  const one = resolved(api, schema);
  if (one.name) return one.name;
  const some = one.anyOf ?? one.oneOf;
  if (some && !one.type) return some.map((part) => typed(api, part)).join(" or ");
  if (one.const !== undefined) return JSON.stringify(one.const);
  if (one.enum) return one.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (one.type === "array") return `list of ${one.items ? typed(api, one.items) : "anything"}`;
  if (one.type === "object") return "object";
  return one.type ?? "anything";
}

function limits(one) {
  const told = [];
  if (one.maxLength !== undefined) told.push(`at most ${one.maxLength} characters`);
  if (one.maxItems !== undefined) told.push(`at most ${one.maxItems}`);
  if (one.minimum !== undefined && one.maximum !== undefined) told.push(`${one.minimum} to ${one.maximum}`);
  if (one.default !== undefined) told.push(`default ${JSON.stringify(one.default)}`);
  return told.join("; ");
}

function fields(api, schema) {
  const one = resolved(api, schema);
  const rows = Object.entries(one.properties ?? {}).map(([name, part]) => {
    const about = [part.description, limits(part)].filter(Boolean).join(" — ");
    return [make("code", {}, name), typed(api, part), about];
  });
  const about = one.description ? make("p", {}, one.description) : null;
  return make("div", {}, about, table(["key", "type", ""], rows));
}

function table(head, rows) {
  const top = make("tr", {}, ...head.map((one) => make("th", { scope: "col" }, one)));
  const rest = rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", {}, cell))));
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, top), make("tbody", {}, ...rest)));
}

function answers(api, responses) {
  const rows = Object.entries(responses).map(([status, one]) => {
    const [[kind, content] = []] = Object.entries(one.content ?? {});
    return [make("code", {}, status), one.description, content?.schema ? schemaOf(api, content.schema, kind) : (kind ?? "")];
  });
  return table(["status", "when", "what"], rows);
}

/** Named schemas can be opened; those within them are listed below. */
function schemaOf(api, schema, kind) {
  const one = resolved(api, schema);
  if (!one.name) return kind;
  const within = new Map();
  gather(api, schema, within);
  const parts = [...within.values()].flatMap((part) => [make("h3", {}, part.name), fields(api, part)]);
  return make("details", {}, make("summary", {}, `${one.name} (${kind})`), ...parts);
}

function gather(api, schema, found) {
  const one = resolved(api, schema);
  if (one.name) {
    if (found.has(one.name)) return;
    found.set(one.name, one);
  }
  for (const part of [...Object.values(one.properties ?? {}), ...(one.anyOf ?? []), one.items].filter(Boolean)) gather(api, part, found);
}

function trial(api, path, method, body) {
  const shown = make("pre", { "aria-live": "polite" });
  shown.hidden = true;
  const label = `Body of ${method.toUpperCase()} ${path}`;
  const text = body ? make("textarea", { "aria-label": label, spellcheck: "false" }) : null;
  if (text) text.value = JSON.stringify(resolved(api, body).examples?.[0] ?? {}, null, 2);
  const button = make("button", { type: "button" }, "Send");
  button.addEventListener("click", async () => {
    button.disabled = true;
    shown.hidden = false;
    shown.textContent = "…";
    try {
      const options = { method: method.toUpperCase(), headers: headers() };
      if (text) Object.assign(options, { body: text.value, headers: { ...headers(), "Content-Type": "application/json" } });
      const answer = await fetch(path.slice(1), options);
      const content = await answer.text();
      const json = answer.headers.get("content-type")?.includes("json");
      shown.textContent = `${answer.status}\n${json ? JSON.stringify(JSON.parse(content), null, 2) : content}`;
    } catch (error) {
      shown.textContent = `The service could not be reached (${error.message}).`;
    }
    button.disabled = false;
  });
  return make("details", {}, make("summary", {}, "Try it"), text, button, shown);
}

byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key = byId("key").value.trim();
  run();
});

function run() {
  start().catch((error) => byId("operations").replaceChildren(make("p", { role: "alert" }, `${error.message}`)));
}

run();
