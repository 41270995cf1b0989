// SPDX-License-Identifier: Apache-2.0
// One value by step.
import { Chart } from "./chart.js";
import { setText } from "./dom.js";
import { color } from "./theme.js";
import { count, value } from "./words.js";

const kMostPoints = 4096;

export function stepLabel(step) {
  if (!Number.isInteger(step)) return "";
  return step >= 1e6 ? `${step / 1e6}M` : step >= 1e4 ? `${step / 1e3}k` : count(step);
}

export class Curve extends Chart {
  constructor(tag, note, group) {
    super(tag, note, group);
    this.tag = tag;
    this.figure.dataset.tag = tag;
  }

  add(points) {
    for (const [step, number] of points) {
      const last = this.points.at(-1);
      if (last && step < last[0]) this.cut(step);  // an elastic job went back to its last commit
      if (this.points.at(-1)?.[0] === step) this.points.pop();
      this.points.push([step, typeof number === "number" ? number : null]);
    }
    if (this.points.length > kMostPoints) this.points = this.points.filter((_, index, all) => index % 2 === 0 || index === all.length - 1);
    this.changed = true;
  }

  cut(step) {
    while (this.points.length && this.points.at(-1)[0] >= step) this.points.pop();
  }

  colors() {
    return { ...super.colors(), colors: [color("line")] };
  }

  options(range) {
    return {
      ...this.commonOptions(range), ...this.colors(), labels: ["step", "value"],
      axes: {
        x: { drawGrid: false, pixelsPerLabel: 32, axisLabelWidth: 44, axisLabelFormatter: stepLabel },
        y: { pixelsPerLabel: 20, axisLabelWidth: 42, axisLabelFormatter: (number) => value(number) },
      },
    };
  }

  // The value at the cursor; without one the last value.
  show(step) {
    if (!this.points.length) return;
    this.shown = step;
    const index = step === null ? this.points.length - 1 : this.nearest(step), [at, number] = this.points[index];
    const words = step === null ? value(number) : `${value(number)} at step ${count(at)}`;
    setText(this.words, words);
    this.plot.setAttribute("aria-label", `${this.tag} by step: ${value(number)} at step ${count(at)}`);
    if (step === null) this.graph?.clearSelection();
    else this.graph?.setSelection(index);
  }
}
