// Choosing a file, watching it go through, and taking the result away.

import { byId, counted, make, sentence } from "./elements.js";
import { Job, itemsOf } from "./files.js";
import { askAgain } from "./service.js";

const LISTED = 200; // texts that can be looked at; the download has all

export class FilesPanel {
  #job = null;
  #name = "";
  #listed = 0;
  #taking = null; // of the file that was chosen last, until it is read; aborted when there is another one
  #options;
  #model;
  #open;

  /**
   * `options()`: threshold and flat as they are set; `model(signal)`: a promise of what the service says of its model,
   * or of null; `open(text)`: somebody wants to look at a text.
   */
  constructor(options, model, open) {
    this.#options = options;
    this.#model = model;
    this.#open = open;
    const input = byId("file");
    input.addEventListener("change", () => {
      const file = input.files[0];
      input.value = ""; // so that the same file can be chosen again
      if (file) this.take(file);
    });
    const drop = byId("drop");
    for (const name of ["dragenter", "dragover"]) {
      drop.addEventListener(name, (event) => {
        event.preventDefault();
        drop.classList.add("over");
      });
    }
    for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("over"));
    drop.addEventListener("drop", (event) => {
      event.preventDefault();
      const [file, ...others] = event.dataTransfer.files;
      if (file) this.take(file, others.length ? `Only ${file.name} was taken, as one file can be at a time.` : "");
    });
    for (const name of ["dragover", "drop"]) document.addEventListener(name, stay);
    byId("job-cancel").addEventListener("click", () => this.#job?.cancel());
    byId("job-resume").addEventListener("click", () => {
      askAgain();
      this.#run();
    });
    byId("job-download").addEventListener("click", () => this.#download());
  }

  /** Works on a file, in place of one that is worked on; `note` is said beside. */
  async take(file, note = "") {
    askAgain();
    this.#note(`${this.#stop()} ${note}`.trim());
    const { signal } = (this.#taking = new AbortController());
    this.#name = file.name;
    byId("job").hidden = false;
    byId("job-texts").replaceChildren();
    this.#listed = 0;
    this.#tell("Reading …");
    let content;
    try {
      content = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    } catch (error) {
      if (signal.aborted) return;
      this.#taking = null;
      const why = error instanceof TypeError ? "is not UTF-8. Save it as UTF-8 and choose it again." : "cannot be read.";
      this.#failed(`${file.name} ${why}`);
      return;
    }
    const model = signal.aborted ? null : await this.#model(signal);
    if (signal.aborted) return;
    this.#taking = null;
    if (!model) {
      this.#failed(`${file.name} was not begun, as the service does not say what it takes. Choose it again when it does.`);
      return;
    }
    const job = new Job(itemsOf(file.name, content, byId("file-split").value), model.limits, this.#options(), (message) => {
      if (job === this.#job) this.#tell(message);
    });
    this.#job = job;
    if (job.total) await this.#run();
    else this.#failed(`${file.name} has no texts.`);
  }

  /** Stops what is under way; returns what there is to say about that. */
  #stop() {
    const [job, name] = [this.#job, this.#name];
    const reading = this.#taking !== null;
    this.#taking?.abort();
    this.#job = null; // first, so that it has no more to say here
    job?.cancel();
    if (reading) return `${name} was stopped for this file before anything of it was done.`;
    if (!job?.running) return "";
    return `${name} was stopped for this file, with ${job.done.length.toLocaleString("en")} of ${counted(job.total, "text")} done.`;
  }

  #note(text) {
    const note = byId("job-note");
    note.hidden = !text;
    note.textContent = text;
  }

  async #run() {
    const job = this.#job;
    const error = await job.run();
    if (job !== this.#job) return;
    const kept = `What is done so far (${counted(job.done.length, "text")} of ${job.total.toLocaleString("en")}) can be downloaded.`;
    if (error?.name === "AbortError") this.#tell(`Stopped. ${kept}`);
    else if (error) {
      const advice = error.status === 401 ? "Go on, and you are asked for a key again." : error.advice;
      this.#failed([sentence(error.message), advice, kept].filter(Boolean).join(" "));
    }
  }

  #failed(message) {
    this.#tell(message);
    byId("job-status").classList.add("wrong");
  }

  #tell(message) {
    const job = this.#job;
    const done = job?.done.length ?? 0;
    const status = byId("job-status");
    status.classList.remove("wrong");
    const progress = byId("job-progress");
    progress.max = Math.max(1, job?.total ?? 1);
    progress.value = done;
    progress.hidden = !job?.total;
    byId("job-cancel").hidden = !job?.running;
    byId("job-resume").hidden = !job || job.running || job.finished;
    byId("job-download").hidden = !done;
    const problems = byId("job-problems");
    problems.hidden = !job?.problems.length;
    const shown = (job?.problems ?? []).slice(0, 20);
    problems.replaceChildren(...shown.map((one) => make("li", {}, one)));
    if (job?.problems.length > 20) problems.append(make("li", {}, `and ${job.problems.length - 20} more.`));
    this.#list();
    if (message || !job) {
      status.textContent = message;
      return;
    }
    const found = job.done.reduce((sum, one) => sum + one.document.entities.length, 0);
    const what = job.finished && !job.running ? "Done" : "Working";
    status.textContent = `${this.#name}: ${what}, ${done.toLocaleString("en")} of ${counted(job.total, "text")}, ${counted(found, "entity", "entities")}.`;
  }

  #list() {
    const list = byId("job-texts");
    const done = this.#job?.done ?? [];
    for (; this.#listed < Math.min(done.length, LISTED); this.#listed++) {
      const { document: one } = done[this.#listed];
      const start = one.text.length > 90 ? `${one.text.slice(0, 90)}…` : one.text;
      const open = make("button", { type: "button", class: "entity", dir: "auto", onclick: () => this.#open(one.text) }, start || "(empty)");
      list.append(make("li", {}, open, make("span", { class: "muted" }, ` ${counted(one.entities.length, "entity", "entities")}`)));
    }
    list.hidden = !list.childElementCount;
  }

  #download() {
    const address = URL.createObjectURL(new Blob(this.#job.lines(), { type: "application/jsonl" }));
    const link = make("a", { href: address, download: this.#name.replace(/(\.[^.]+)?$/, ".entities.jsonl") });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  }
}

/** A file that misses its place stays out: browsers would show it instead of the page, and all work would be gone. */
function stay(event) {
  if (event.defaultPrevented || !event.dataTransfer?.types.includes("Files")) return;
  event.preventDefault();
  if (event.type === "dragover") event.dataTransfer.dropEffect = "none";
}
