// SPDX-License-Identifier: Apache-2.0
// Around the rows of the task stream: numbers of ranks, times, and the mark of the chosen span.
import { color } from "./theme.js";

const kMarks = { lost: ["bad", "✕"], stalled: ["bad", "▲"], late: ["phase-data", "▸"] };
const kSteps = [1, 2, 5, 10, 20, 50, 100, 200, 500];

export class StreamAxes {
  constructor(context) {
    this.context = context;
  }

  layOut(layout) {
    Object.assign(this, layout);
  }

  draw(seconds) {
    const { context, scale, gutter, plotWidth, height } = this;
    context.fillStyle = color("paper");
    context.fillRect(0, 0, context.canvas.width, context.canvas.height);
    context.font = `${11 * scale}px system-ui, "DejaVu Sans", sans-serif`;
    this.drawRanks();
    context.fillStyle = color("soft");
    context.textBaseline = "top";
    const step = [0.2, 0.5, ...kSteps].find((one) => seconds / one * 84 * scale <= plotWidth) ?? 20;
    for (let ago = 0; ago <= seconds + 1e-9; ago += step) {
      const x = gutter + plotWidth * (1 - ago / seconds);
      context.fillRect(Math.min(Math.round(x), gutter + plotWidth - 1), height, 1, 4 * scale);
      context.textAlign = ago === 0 ? "right" : x < gutter + 20 * scale ? "left" : "center";
      context.fillText(ago === 0 ? (this.hasEnded ? "end" : "now") : `−${Number(ago.toFixed(1))} s`, x, height + 6 * scale);
    }
  }

  // Lost, stalled and late ranks have a mark and their number; the other numbers stand in the room that is left.
  drawRanks() {
    const { context, scale, pitch, gap, ranks, marks } = this, marked = [];
    context.textBaseline = "middle";
    context.textAlign = "right";
    const middle = (row) => Math.max(6 * scale, row * pitch + (pitch - gap) / 2);
    const hasRoom = (y) => marked.every((other) => Math.abs(other - y) >= 13 * scale);
    ranks.forEach(({ rank, state }, row) => {
      const mark = state === "lost" ? "lost" : marks.get(rank);
      if (!mark) return;
      const [name, sign] = kMarks[mark];
      this.drawRank(rank, row, hasRoom(middle(row)) ? middle(row) : null, name, sign);
      marked.push(middle(row));
    });
    const every = kSteps.find((one) => one * pitch >= 13 * scale) ?? 500;
    for (let row = 0; row < ranks.length; row += every) {
      if (hasRoom(middle(row))) this.drawRank(ranks[row].rank, row, middle(row), "soft", every === 1 && this.gutter > 50 * scale ? "rank" : "");
    }
  }

  drawRank(rank, row, y, name, before) {
    const { context, scale, gutter, pitch, gap } = this;
    context.fillStyle = color(name);
    if (name !== "soft") context.fillRect(gutter - 5 * scale, row * pitch, 3 * scale, Math.max(2 * scale, pitch - gap));
    context.fillStyle = color(name === "phase-data" ? "ink" : name);
    if (y !== null) context.fillText(`${before} ${rank}`, gutter - 8 * scale, y);
  }

  // Around a row's part, in seconds from the left edge of the view.
  mark(row, from, to, secondsInView) {
    const { context, scale, gutter, pitch, gap, plotWidth } = this;
    const x = gutter + Math.max(0, from / secondsInView) * plotWidth, end = gutter + Math.min(1, to / secondsInView) * plotWidth;
    if (end < x) return;
    for (const [name, line] of [["paper", 4 * scale], ["ink", 2 * scale]]) {
      context.strokeStyle = color(name);
      context.lineWidth = line;
      context.strokeRect(x, row * pitch, Math.max(2, end - x), Math.max(2, pitch - gap));
    }
  }

  rowAt(y) {
    return Math.max(0, Math.min(Math.ceil(this.height / this.pitch) - 1, Math.floor(y * this.scale / this.pitch)));
  }

  // The share of the plot's width at a place of the canvas, in CSS pixels.
  shareAt(x) {
    return (x * this.scale - this.gutter) / this.plotWidth;
  }

  xOf(share) {
    return (this.gutter + share * this.plotWidth) / this.scale;
  }
}
