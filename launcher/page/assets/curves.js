// SPDX-License-Identifier: Apache-2.0
// Small curves side by side, with one cursor and one range of steps.
import { Curve } from "./curve.js";
import { byId } from "./dom.js";
import { LinkedCharts } from "./linked_charts.js";

const kPause = 500;  // ms between two drawings
const kOrder = [/loss/i, /learning.?rate|^lr$/i, /samples/i, /grad/i, /eval|f1|accuracy|perplexity/i];
const kMeasured = { samples_per_s: "samples/s", step_ms: "ms a step" };
const kMeasuredNote = "measured by ruedarun, since this page was opened", kRecordedNote = "measured by ruedarun";

function position(tag) {
  const found = kOrder.findIndex((pattern) => pattern.test(tag));
  return found < 0 ? kOrder.length : found;
}

export class Curves extends LinkedCharts {
  constructor() {
    super(byId("curves-reset"));
  }

  fresh() {
    for (const curve of this.all.values()) curve.graph?.destroy();
    this.all.clear();
    this.range = this.drawn = null;
    byId("curves-list").replaceChildren();
    byId("curves-empty").hidden = false;
    byId("curves-reset").hidden = true;
  }

  update({ scalars = {}, progress, measured }) {
    for (const [tag, points] of Object.entries(scalars)) this.curve(tag).add(points);
    if (measured) this.showMeasured(measured);
    else if (progress?.step) this.measure(progress);
    this.drawSoon();
  }

  // A program that logs no speed still has its curve.
  measure(progress) {
    if (this.logs(/samples|tokens|images/i)) return;
    for (const [name, tag] of Object.entries(kMeasured)) {
      const known = this.all.get(tag);
      if (!progress[name] || (known && !known.isMeasured)) continue;
      const curve = this.curve(tag, kMeasuredNote);
      curve.isMeasured = true;
      if (curve.points.at(-1)?.[0] !== progress.step) curve.add([[progress.step, progress[name]]]);
    }
  }

  // The whole curves, of a job that has ended.
  showMeasured(measured) {
    if (this.logs(/samples|tokens|images/i)) return;
    for (const [tag, points] of Object.entries(measured)) {
      if (this.all.has(tag)) continue;
      const curve = this.curve(tag, kRecordedNote);
      curve.isMeasured = true;
      curve.add(points);
    }
  }

  logs(pattern) {
    return [...this.all.values()].some((curve) => !curve.isMeasured && pattern.test(curve.tag));
  }

  curve(tag, note = "") {
    const known = this.all.get(tag);
    if (known && !(known.isMeasured && !note)) return known;
    if (known) this.remove(known);  // the program logs it now
    const made = new Curve(tag, note, this), list = byId("curves-list");
    const next = [...list.children].find((other) => position(other.dataset.tag) > position(tag));
    list.insertBefore(made.figure, next ?? null);
    byId("curves-empty").hidden = true;
    this.all.set(tag, made);
    return made;
  }

  remove(curve) {
    curve.graph?.destroy();
    curve.figure.remove();
  }

  drawSoon() {
    this.timer ??= setTimeout(() => {
      this.timer = null;
      this.draw();
    }, performance.now() < (this.drawnAt ?? 0) + kPause ? kPause : 0);
    this.drawnAt = performance.now();
  }
}
