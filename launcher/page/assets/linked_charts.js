// SPDX-License-Identifier: Apache-2.0
// Charts with one cursor and one range of x.
import { onColorsChanged } from "./theme.js";

export class LinkedCharts {
  // `reset` is a button that is there while a part of the range is in view. `margin` is the share of the range that stays free at both ends.
  constructor(reset, margin = 0) {
    this.margin = margin;
    this.all = new Map();  // by name
    this.range = null;
    this.reset = reset;
    reset.addEventListener("click", () => this.setWindow(null));
    onColorsChanged(() => this.all.forEach((chart) => chart.recolor()));
  }

  // All charts have the same x in view: the chosen range, or everything.
  draw() {
    const range = this.range ?? this.everything();
    const isMoved = String(range) !== String(this.drawn);
    this.drawn = range;
    this.isFollowing = true;
    for (const chart of this.all.values()) if (chart.changed || isMoved) chart.draw(range);
    this.isFollowing = false;
  }

  everything() {
    const charts = [...this.all.values()];
    const first = Math.min(...charts.map(({ points }) => points[0]?.[0] ?? Infinity)), last = Math.max(...charts.map(({ points }) => points.at(-1)?.[0] ?? -Infinity));
    const free = this.margin * (last - first);
    return first < last ? [first - free, last + free] : [first - 1, first + 1];
  }

  cursor(x, chart) {
    for (const other of this.all.values()) other.show(x, other === chart);
  }

  // The reader has zoomed or moved a chart: the others follow.
  window(range) {
    if (this.isFollowing || String(range) === String(this.drawn)) return;
    this.setWindow(range);
  }

  setWindow(range) {
    this.range = range;
    this.drawn = null;
    this.draw();
    this.reset.hidden = range === null;
  }
}
