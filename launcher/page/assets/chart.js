// SPDX-License-Identifier: Apache-2.0
// A figure with lines over one axis, drawn by dygraphs. It shares its cursor and its range with other charts.
import { node } from "./dom.js";
import { color } from "./theme.js";

const { Dygraph } = window;
// The others put text into the page as HTML.
Dygraph.PLUGINS = [Dygraph.Plugins.Axes, Dygraph.Plugins.Grid];

// A finger scrolls the page; two fingers zoom.
function interaction() {
  const model = { ...Dygraph.defaultInteractionModel };
  for (const name of ["touchstart", "touchmove"]) {
    const act = model[name];
    model[name] = (event, ...more) => event.touches.length > 1 ? act(event, ...more) : undefined;
  }
  return model;
}

export class Chart {
  // `group` has cursor(x, chart), window(range) and setWindow(range). `points` is a list of [x, values...], by x.
  // A subclass has options(range) and show(x, isOwn).
  constructor(name, note, group) {
    this.points = [];
    this.group = group;
    this.figure = node("figure");
    this.plot = node("div", "plot");
    this.plot.tabIndex = 0;
    this.plot.setAttribute("role", "img");
    const caption = node("figcaption", "", name);
    caption.title = note || name;
    this.words = node("output", "last");
    this.figure.append(caption, this.words, this.plot);
    this.plot.addEventListener("keydown", (event) => this.key(event));
    this.plot.addEventListener("blur", () => this.group.cursor(null, this));
  }

  draw(range) {
    this.changed = false;
    if (this.graph) this.graph.updateOptions({ file: this.points, dateWindow: range });
    else this.graph = new Dygraph(this.plot, this.points, this.options(range));
    this.show(this.shown ?? null);
  }

  colors() {
    return { axisLineColor: color("rule"), gridLineColor: color("rule") };
  }

  recolor() {
    this.graph?.updateOptions(this.colors());
  }

  commonOptions(range) {
    return {
      dateWindow: range, strokeWidth: 1.6, axisLabelFontSize: 11, highlightCircleSize: 3.5,
      rightGap: 8, xRangePad: 3, yRangePad: 6, gridLineWidth: 0.6, axisTickSize: 3, animatedZooms: false, interactionModel: interaction(),
      highlightCallback: (_, x) => this.group.cursor(x, this),
      unhighlightCallback: () => this.group.cursor(null, this),
      drawCallback: (graph) => this.group.window(graph.isZoomed("x") ? graph.xAxisRange() : null),
    };
  }

  // The index of the point next to x.
  nearest(x) {
    let low = 0, high = this.points.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.points[middle][0] < x) low = middle + 1; else high = middle;
    }
    return low > 0 && x - this.points[low - 1][0] < this.points[low][0] - x ? low - 1 : low;
  }

  key(event) {
    const [from, to] = this.graph.xAxisRange(), middle = (from + to) / 2, half = (to - from) / 2;
    const zoom = (factor) => this.group.setWindow([middle - half * factor, middle + half * factor]);
    const move = (way) => event.shiftKey ? this.group.setWindow([from + way * half / 4, to + way * half / 4]) : this.stepCursor(way);
    const acts = {
      ArrowLeft: () => move(-1), ArrowRight: () => move(1), "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1.4),
      0: () => this.group.setWindow(null), Escape: () => this.group.setWindow(null),
    };
    if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    acts[event.key]();
  }

  stepCursor(way) {
    const index = this.shown === null ? this.points.length - 1 : this.nearest(this.shown) + way;
    this.group.cursor(this.points[Math.max(0, Math.min(this.points.length - 1, index))][0], this);
  }
}
