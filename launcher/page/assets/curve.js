// SPDX-License-Identifier: Apache-2.0
// One value by step, drawn by dygraphs.
import { node, setText } from "./dom.js";
import { color } from "./theme.js";
import { count, value } from "./words.js";

const kMostPoints = 4096;
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

function stepLabel(step) {
  if (!Number.isInteger(step)) return "";
  return step >= 1e6 ? `${step / 1e6}M` : step >= 1e4 ? `${step / 1e3}k` : count(step);
}

export class Curve {
  // `curves` has cursor(step), window(range) and setWindow(range).
  constructor(tag, note, curves) {
    this.tag = tag;
    this.points = [];
    this.curves = curves;
    this.figure = node("figure");
    this.figure.dataset.tag = tag;
    this.plot = node("div", "plot");
    this.plot.tabIndex = 0;
    this.plot.setAttribute("role", "img");
    const caption = node("figcaption", "", tag);
    caption.title = note || tag;
    this.words = node("output", "last");
    this.figure.append(caption, this.words, this.plot);
    this.plot.addEventListener("keydown", (event) => this.key(event));
    this.plot.addEventListener("blur", () => this.curves.cursor(null));
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

  draw(range) {
    this.changed = false;
    if (this.graph) this.graph.updateOptions({ file: this.points, dateWindow: range });
    else this.graph = new Dygraph(this.plot, this.points, this.options(range));
    this.show(this.shown ?? null);
  }

  colors() {
    return { colors: [color("line")], axisLineColor: color("rule"), gridLineColor: color("rule") };
  }

  options(range) {
    return {
      ...this.colors(), labels: ["step", "value"], dateWindow: range, strokeWidth: 1.6, axisLabelFontSize: 11, highlightCircleSize: 3.5,
      rightGap: 8, xRangePad: 3, yRangePad: 6, gridLineWidth: 0.6, axisTickSize: 3, animatedZooms: false, interactionModel: interaction(),
      axes: {
        x: { drawGrid: false, pixelsPerLabel: 32, axisLabelWidth: 44, axisLabelFormatter: stepLabel },
        y: { pixelsPerLabel: 20, axisLabelWidth: 42, axisLabelFormatter: (number) => value(number) },
      },
      highlightCallback: (_, step) => this.curves.cursor(step),
      unhighlightCallback: () => this.curves.cursor(null),
      drawCallback: (graph) => this.curves.window(graph.isZoomed("x") ? graph.xAxisRange() : null),
    };
  }

  nearest(step) {
    let low = 0, high = this.points.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.points[middle][0] < step) low = middle + 1; else high = middle;
    }
    return low > 0 && step - this.points[low - 1][0] < this.points[low][0] - step ? low - 1 : low;
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

  key(event) {
    const [from, to] = this.graph.xAxisRange(), middle = (from + to) / 2, half = (to - from) / 2;
    const zoom = (factor) => this.curves.setWindow([middle - half * factor, middle + half * factor]);
    const move = (way) => event.shiftKey ? this.curves.setWindow([from + way * half / 4, to + way * half / 4]) : this.stepCursor(way);
    const acts = {
      ArrowLeft: () => move(-1), ArrowRight: () => move(1), "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1.4),
      0: () => this.curves.setWindow(null), Escape: () => this.curves.setWindow(null),
    };
    if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    acts[event.key]();
  }

  stepCursor(way) {
    const index = this.shown === null ? this.points.length - 1 : this.nearest(this.shown) + way;
    this.curves.cursor(this.points[Math.max(0, Math.min(this.points.length - 1, index))][0]);
  }
}
