// SPDX-License-Identifier: Apache-2.0
// Small curves side by side, with one cursor and one range of steps.
import { Curve } from "./curve.js";
import { byId } from "./dom.js";
import { onColorsChanged } from "./theme.js";

const kPause = 500;  // ms between two drawings
const kOrder = [/loss/i, /learning.?rate|^lr$/i, /samples/i, /grad/i, /eval|f1|accuracy|perplexity/i];
const kMeasured = { samples_per_s: "samples/s", step_ms: "ms a step" };
const kMeasuredNote = "measured by ruedarun, since this page was opened";

function position(tag) {
  const found = kOrder.findIndex((pattern) => pattern.test(tag));
  return found < 0 ? kOrder.length : found;
}

export class Curves {
  constructor() {
    this.all = new Map();
    this.range = null;
    byId("curves-reset").addEventListener("click", () => this.setWindow(null));
    onColorsChanged(() => this.all.forEach((curve) => curve.graph?.updateOptions(curve.colors())));
  }

  fresh() {
    for (const curve of this.all.values()) curve.graph?.destroy();
    this.all.clear();
    this.range = this.drawn = null;
    byId("curves-list").replaceChildren();
    byId("curves-empty").hidden = false;
    byId("curves-reset").hidden = true;
  }

  update({ scalars = {}, progress }) {
    for (const [tag, points] of Object.entries(scalars)) this.curve(tag).add(points);
    if (progress?.step) this.measure(progress);
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

  // All curves have the same steps in view: the chosen range, or all steps.
  draw() {
    const range = this.range ?? this.everything();
    const isMoved = String(range) !== String(this.drawn);
    this.drawn = range;
    this.isFollowing = true;
    for (const curve of this.all.values()) if (curve.changed || isMoved) curve.draw(range);
    this.isFollowing = false;
  }

  everything() {
    const curves = [...this.all.values()];
    const first = Math.min(...curves.map(({ points }) => points[0]?.[0] ?? Infinity)), last = Math.max(...curves.map(({ points }) => points.at(-1)?.[0] ?? -Infinity));
    return first < last ? [first, last] : [first - 1, first + 1];
  }

  cursor(step) {
    for (const curve of this.all.values()) curve.show(step);
  }

  // The reader has zoomed or moved a curve: the others follow.
  window(range) {
    if (this.isFollowing || String(range) === String(this.drawn)) return;
    this.setWindow(range);
  }

  setWindow(range) {
    this.range = range;
    this.drawn = null;
    this.draw();
    byId("curves-reset").hidden = range === null;
  }
}
