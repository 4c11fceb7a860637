// Choosing a file, watching it go through, and taking the result away.

import { byId, counted, make } from "./elements.js";
import { Job, itemsOf } from "./files.js";

const LISTED = 200; // texts that can be looked at; the download has all

export class FilesPanel {
  #job = null;
  #name = "";
  #listed = 0;
  #model;
  #options;
  #open;

  /** `options()`: threshold and flat as they are set; `open(text)`: somebody wants to look at a text. */
  constructor(options, open) {
    this.#options = options;
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
      if (event.dataTransfer.files[0]) this.take(event.dataTransfer.files[0]);
    });
    byId("job-cancel").addEventListener("click", () => this.#job?.cancel());
    byId("job-resume").addEventListener("click", () => this.#run());
    byId("job-download").addEventListener("click", () => this.#download());
  }

  set model(model) {
    this.#model = model;
  }

  async take(file) {
    this.#job?.cancel();
    this.#job = null;
    this.#name = file.name;
    byId("job").hidden = false;
    byId("job-texts").replaceChildren();
    this.#listed = 0;
    this.#tell("Reading …");
    let content;
    try {
      content = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    } catch (error) {
      const why = error instanceof TypeError ? "is not UTF-8. Save it as UTF-8 and choose it again." : "cannot be read.";
      this.#failed(`${file.name} ${why}`);
      return;
    }
    if (!this.#model) {
      this.#failed("The service has not said yet what it takes; choose the file again in a moment.");
      return;
    }
    const job = new Job(itemsOf(file.name, content, byId("file-split").value), this.#model.limits, this.#options(), (message) => {
      if (job === this.#job) this.#tell(message);
    });
    this.#job = job;
    if (job.total) await this.#run();
    else this.#failed(`${file.name} has no texts.`);
  }

  async #run() {
    const job = this.#job;
    const error = await job.run();
    if (job !== this.#job) return;
    const kept = `What is done so far (${counted(job.done.length, "text")} of ${job.total.toLocaleString("en")}) can be downloaded.`;
    if (error?.name === "AbortError") this.#tell(`Stopped. ${kept}`);
    else if (error) this.#failed(`${error.message} ${error.advice ?? ""} ${kept}`);
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
