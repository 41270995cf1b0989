// SPDX-License-Identifier: Apache-2.0
// The state of the job in one line, its progress, and the title of the window.
import { byId, keepChildren, node, setShare, setText } from "./dom.js";
import { about, count, dateInWords, duration, isDate, percent, plural, value } from "./words.js";

const kConnections = {
  connected: "live",
  lost: "connection lost, connecting again …",
  refused: "ruedarun refuses this page: open the address that it printed",
  full: "too many watch this job: close some of these pages",
  unseen: "this page was out of sight",
  ended: "the job has ended; this is its last state",
};

export class Headline {
  constructor() {
    this.fresh();
  }

  fresh() {
    this.line = { state: "starting", text: "Waiting for the job …" };
    this.progress = null;
    this.now = 0;
    this.states = null;
    this.ended = false;
  }

  job(job) {
    setText(byId("command"), job.command);
    byId("command").title = job.command;
    this.states = job.ranks.map((rank) => rank.state);
    this.startedAt = job.started_at;
    this.show();
  }

  update(update) {
    this.now = update.now;
    if (update.line) this.tellChange(update.line);
    if (update.progress) this.progress = update.progress;
    for (const event of update.events ?? []) {
      this.announce(event.text);
      if (event.kind === "end") this.ended = true;
    }
    this.show();
  }

  tellChange(line) {
    if (line.state !== this.line.state) this.announce(line.text);
    this.line = line;
  }

  announce(text) {
    setText(byId("announcement"), text);
  }

  hasEnded() {
    return this.ended || this.line.state === "ended";
  }

  connection(state) {
    byId("connection").dataset.state = state;
    setText(byId("connection"), kConnections[state]);
  }

  end() {
    this.connection("ended");
  }

  show() {
    byId("headline").dataset.state = this.line.state;
    setText(byId("line"), this.line.text);
    this.showProgress();
    this.showFigures();
    const step = this.progress?.step ? `step ${count(this.progress.step)}${this.progress.total ? ` of ${count(this.progress.total)}` : ""}` : "no step yet";
    document.title = `${this.line.state}, ${step} · Rueda`;
  }

  showProgress() {
    const bar = byId("progress"), { step, total, ends_at: endsAt } = this.progress ?? {};
    bar.hidden = !total;
    if (!step) return setText(byId("progress-words"), "The first step has not ended.");
    if (!total) return setText(byId("progress-words"), `${plural(step, "step")}; the program has not said how many there will be (describe_training).`);
    const share = Math.min(1, step / total);
    setShare(bar, share);
    bar.setAttribute("aria-valuenow", Math.round(100 * share));
    bar.setAttribute("aria-valuetext", `step ${count(step)} of ${count(total)}`);
    let words = `${percent(share)} of ${plural(total, "step")}`;
    if (endsAt && isDate(endsAt) && this.line.state === "running") {
      const now = this.startedAt === undefined ? Date.now() / 1000 : this.startedAt + this.now, left = endsAt - now;
      words += `; ends ${dateInWords(endsAt, now)}${left > 0 ? `, in ${about(left)}` : ""}`;
    }
    setText(byId("progress-words"), words);
  }

  showFigures() {
    const progress = this.progress ?? {}, figures = [];
    const add = (name, text, note = "") => figures.push({ name, text, note });
    if (progress.samples_per_s) add("samples/s", value(progress.samples_per_s));
    if (progress.step_ms) add("a step", duration(progress.step_ms / 1000));
    if (progress.step_ms && progress.wait_ms !== undefined) {
      add("waits for others", duration(progress.wait_ms / 1000), `${percent(progress.wait_ms / progress.step_ms)} of a step`);
    }
    if (this.states) {
      const running = this.states.filter((state) => state === "running").length;
      add("ranks", `${count(running)} of ${count(this.states.length)}`, "running");
    }
    add("runs for", about(this.now));
    keepChildren(byId("figures"), figures, ({ name }) => name, ({ name }) => {
      const made = node("div");
      made.append(node("dt", "", name), node("dd"), node("dd", "note"));
      return made;
    }, (made, { text, note }) => {
      setText(made.children[1], text);
      setText(made.children[2], note);
    });
  }
}
