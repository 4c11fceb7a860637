// Shows openapi.json: what there is to ask, what comes back; and asks, if somebody wants to try.
// Everything is written as text: nothing that a service answers becomes markup.

const place = document.getElementById("operations");
const form = document.getElementById("key");
const field = document.getElementById("key-value");

form.addEventListener("submit", (event) => {
  event.preventDefault();
  show();
});

function headers(more = {}) {
  return field.value ? { ...more, "X-API-Key": field.value } : more;
}

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function resolved(schema, all) {
  const reference = schema && schema.$ref;
  return reference ? all[reference.split("/").pop()] : schema || {};
}

// A type in a few words; names of schemas lead to where they are described.
function kind(schema) {
  if (!schema) return "anything";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  const choices = schema.anyOf || schema.oneOf;
  if (choices && !schema.properties) return choices.map(kind).join(" | ");
  if (schema.type === "array") return `list of ${kind(schema.items)}`;
  const limits = [];
  if (schema.minimum !== undefined) limits.push(`≥ ${schema.minimum}`);
  if (schema.maximum !== undefined) limits.push(`≤ ${schema.maximum}`);
  if (schema.maxLength !== undefined) limits.push(`at most ${schema.maxLength} characters`);
  const name = schema.type || "anything";
  return limits.length ? `${name} (${limits.join(", ")})` : name;
}

function tableOf(schema) {
  const table = element("table");
  const head = table.createTHead().insertRow();
  for (const name of ["key", "value", ""]) head.append(element("th", name));
  const body = table.createTBody();
  for (const [name, value] of Object.entries(schema.properties || {})) {
    const row = body.insertRow();
    row.insertCell().append(element("code", name));
    const most = value.maxItems === undefined ? "" : ` (at most ${value.maxItems})`;
    row.insertCell().textContent = kind(value) + most;
    row.insertCell().textContent = value.description || "";
  }
  return table;
}

function tryIt(path, method, example) {
  const details = element("details");
  details.append(element("summary", "Try it"));
  const body = element("textarea");
  if (example !== undefined) {
    body.value = JSON.stringify(example, null, 2);
    body.setAttribute("aria-label", "Body of the request");
    details.append(body);
  }
  const button = element("button", "Send");
  const answer = element("pre", "");
  answer.setAttribute("aria-live", "polite");
  answer.hidden = true;
  button.addEventListener("click", async () => {
    const request = { method: method.toUpperCase(), headers: headers() };
    if (example !== undefined) {
      request.body = body.value;
      request.headers = headers({ "Content-Type": "application/json" });
    }
    answer.hidden = false;
    try {
      const response = await fetch(path, request);
      const text = await response.text();
      let shown = text;
      try {
        shown = JSON.stringify(JSON.parse(text), null, 2);
      } catch {
        // Not everything is JSON.
      }
      answer.textContent = `${response.status} ${response.statusText}\n\n${shown}`;
    } catch (error) {
      answer.textContent = `There was no answer: ${error.message}`;
    }
  });
  details.append(button, answer);
  return details;
}

function operation(path, method, described, schemas) {
  const section = element("section");
  const title = element("h2");
  title.append(element("span", method.toUpperCase(), "method"), path);
  section.append(title, element("p", described.description || described.summary));
  const content = described.requestBody && described.requestBody.content["application/json"];
  let example;
  if (content) {
    const schema = resolved(content.schema, schemas);
    example = (schema.examples || [{}])[0];
    section.append(element("h3", "Request"), element("p", schema.description || ""), tableOf(schema));
  }
  section.append(element("h3", "Answers"));
  const table = element("table");
  for (const [status, response] of Object.entries(described.responses)) {
    const row = table.insertRow();
    row.insertCell().append(element("code", status));
    const [type, body] = Object.entries(response.content || {})[0] || ["", {}];
    row.insertCell().textContent = status === "200" ? kind(body.schema) : response.description;
    row.insertCell().append(element("code", type));
  }
  section.append(table, tryIt(path, method, example));
  return section;
}

async function show() {
  const response = await fetch("/openapi.json", { headers: headers() });
  form.hidden = response.status !== 401;
  if (!response.ok) {
    place.textContent = response.status === 401 && field.value ? "That was not a key." : "";
    return;
  }
  const found = await response.json();
  const schemas = found.components.schemas;
  place.replaceChildren();
  for (const [path, methods] of Object.entries(found.paths)) {
    for (const [method, described] of Object.entries(methods)) {
      place.append(operation(path, method, described, schemas));
    }
  }
  place.append(element("h2", "What answers are made of"));
  for (const [name, schema] of Object.entries(schemas)) {
    if (name === "PredictRequest") continue;
    const section = element("section");
    section.append(element("h3", name), element("p", schema.description || ""), tableOf(schema));
    place.append(section);
  }
}

show();
