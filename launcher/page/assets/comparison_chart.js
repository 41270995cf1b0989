// SPDX-License-Identifier: Apache-2.0
// Lines of several runs in one chart.
import { AxisScale } from "./axis_scale.js";
import { Chart } from "./chart.js";
import { stepLabel } from "./curve.js";
import { node } from "./dom.js";
import { dashes, drawHollow, lineColor, lineKey, lineWidth } from "./line_look.js";
import { color } from "./theme.js";
import { about, count, value } from "./words.js";

const kNear = 0.02;  // of the range: points of other lines that the cursor shows
const kLabelX = 64, kLabelY = 30;  // pixels
const kUnits = { step: (x) => `step ${count(x)}`, seconds: (x) => about(x) };

export const keyOf = ({ kind, index, name }) => `${kind} ${index} ${name}`;

export class ComparisonChart extends Chart {
  // `data` is a chart of the report; `legend` has isHidden(line) and isFaded(line).
  constructor(data, group, legend) {
    super(data.title, data.note, group);
    this.data = data;
    this.legend = legend;
    this.x = new AxisScale(data.x.scale);
    this.y = new AxisScale(data.y.scale);
    this.columns = this.columnsOf([...data.lines].sort((left, right) => (left.kind === "own") - (right.kind === "own")));
    this.points = this.merged();
    this.changed = true;
    this.figure.classList.add("compared");
    this.guide = node("div", "guide");
    this.tip = node("output", "tip values");
    this.guide.hidden = this.tip.hidden = true;
    this.words.remove();
    this.area = node("div", "area");
    this.plot.replaceWith(this.area);
    this.area.append(this.plot, this.guide, this.tip);
    this.figure.append(node("div", "axis-title", data.x.title));
    this.area.before(node("div", "axis-title above", data.y.title));
    if (data.note) this.figure.append(node("p", "hint", data.note));
    this.plot.setAttribute("aria-label", `${data.title}: ${data.y.title} by ${data.x.title}. ${data.lines.map(({ name }) => name).join(", ")}`);
  }

  // What dygraphs calls series: each line, and what it is the mean of.
  columnsOf(lines) {
    const placed = (points) => points.map(([x, y, words]) => [this.x.place(x), this.y.place(y), words]);
    return lines.flatMap((line) => [
      ...(line.faint ? [{ line, isFaint: true, points: placed(line.faint) }] : []), { line, isFaint: false, points: placed(line.points) }]);
  }

  merged() {
    const rows = new Map();
    this.columns.forEach(({ points }, column) => {
      for (const [x, y] of points) {
        if (!rows.has(x)) rows.set(x, [x, ...this.columns.map(() => null)]);
        rows.get(x)[column + 1] = y;
      }
    });
    return [...rows.values()].sort((left, right) => left[0] - right[0]);
  }

  colors() {
    const series = {};
    this.columns.forEach(({ line, isFaint, points }, column) => {
      const isFaded = this.legend.isFaded(line), width = lineWidth(line);
      series[column] = {
        color: isFaded ? color("faded") : isFaint ? `${lineColor(line)}55` : lineColor(line), strokeWidth: isFaint ? 1 : isFaded ? 1.2 : width,
        strokePattern: dashes(line), drawPoints: !isFaint && (line.dots || points.length === 1), pointSize: line.kind === "own" ? 3.5 : 3,
        highlightCircleSize: isFaint ? 0 : 4, ...(line.kind === "published" ? { drawPointCallback: drawHollow } : {}),
      };
    });
    return { ...super.colors(), series, visibility: this.columns.map(({ line }) => !this.legend.isHidden(line)) };
  }

  options(range) {
    const ticker = (scale, pixels, words) => (from, to, length) => scale.labels(from, to, Math.max(2, Math.floor(length / pixels)))
      .map(([number, label]) => ({ v: scale.place(number), label: words ? words(number) : label }));
    return {
      ...this.commonOptions(range), ...this.colors(), labels: ["x", ...this.columns.map((_, column) => String(column))], connectSeparatedPoints: true,
      rightGap: 24, valueRange: this.valueRange(),
      axes: {
        x: { drawGrid: true, axisLabelWidth: 48, ticker: ticker(this.x, kLabelX, this.data.x.unit === "step" ? stepLabel : null) },
        y: { axisLabelWidth: 46, ticker: ticker(this.y, kLabelY, null) },
      },
    };
  }

  // Of an axis that has to hold certain values.
  valueRange() {
    const { low, high } = this.data.y;
    if (low === undefined) return null;
    const values = this.columns.flatMap(({ points }) => points.map(([, y]) => y));
    const least = Math.min(low, ...values), most = Math.max(high, ...values);
    return [least, most + 0.04 * (most - least)];
  }

  // The points of all lines at the cursor, the highest first.
  near(x) {
    const [from, to] = this.graph.xAxisRange();
    const lines = this.columns.filter(({ line, isFaint, points }) => !isFaint && line.kind !== "ideal" && points.length && !this.legend.isHidden(line));
    const all = lines.map(({ line, points }) => ({ line, point: points.reduce((best, one) => Math.abs(one[0] - x) < Math.abs(best[0] - x) ? one : best) }));
    if (!all.length) return { at: x, shown: [] };
    const at = all.reduce((best, one) => Math.abs(one.point[0] - x) < Math.abs(best.point[0] - x) ? one : best).point[0];
    const shown = all.filter(({ point }) => Math.abs(point[0] - at) <= kNear * (to - from));
    return { at, shown: shown.sort((left, right) => right.point[1] - left.point[1]) };
  }

  show(x, isOwn = false) {
    this.shown = x;
    const found = x === null || !this.graph ? null : this.near(x);
    this.guide.hidden = !found?.shown.length;
    this.tip.hidden = !isOwn || this.guide.hidden;
    if (x === null) this.graph?.clearSelection();
    if (this.guide.hidden) return;
    const left = this.graph.toDomXCoord(found.at);
    this.guide.style.left = `${left}px`;
    if (!isOwn) return;
    this.tip.replaceChildren(...found.shown.map(({ line, point }) => this.row(line, point)));
    const width = this.area.clientWidth, beside = left < width / 2 ? left + 12 : left - 12 - this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, Math.min(beside, width - this.tip.offsetWidth))}px`;
  }

  row(line, [x, y, words]) {
    const made = node("div"), text = words ?? `${value(this.y.at(y))} · ${(kUnits[this.data.x.unit] ?? value)(this.x.at(x))}`;
    made.append(lineKey(line), node("b", "", line.name), ` ${text}`);
    return made;
  }

  // The arrows go from one point of a line to the next.
  stepCursor(way) {
    const places = [...new Set(this.columns.filter(({ line, isFaint }) => !isFaint && !this.legend.isHidden(line)).flatMap(({ points }) => points.map(([x]) => x)))]
      .sort((left, right) => left - right);
    const at = places.findIndex((place) => place >= (this.shown ?? Infinity) - 1e-12);
    const next = at < 0 ? (way < 0 ? places.length - 1 : 0) : at + way;
    this.group.cursor(places[Math.max(0, Math.min(places.length - 1, next))], this);
  }
}
