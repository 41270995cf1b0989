// SPDX-License-Identifier: Apache-2.0
// The live task stream: one row a rank, the last seconds, moving. It draws in animation frames while it is on the screen.
import { byId, keepChildren, node, setText } from "./dom.js";
import { isLate } from "./late.js";
import { kKept, kPhases, SpanStore } from "./spans.js";
import { StreamAxes } from "./stream_axes.js";
import { StreamControls } from "./stream_controls.js";
import { StreamPixels } from "./stream_pixels.js";
import { color, onColorsChanged, pixelOf, reducedMotion } from "./theme.js";
import { count, duration, percent } from "./words.js";

const kLag = 0.4;  // seconds: the view ends there, so that the spans of an update have come
const kShortest = 1, kLegendPause = 500;

export class TaskStream {
  constructor() {
    this.canvas = byId("stream-canvas");
    this.context = this.canvas.getContext("2d", { alpha: false });
    this.pixels = new StreamPixels();
    this.axes = new StreamAxes(this.context);
    this.window = 10;
    this.pausedAt = null;
    this.onScreen = true;
    this.frames = 0;  // drawn so far
    this.drawMs = 0;  // of the last frame
    this.fresh();
    this.controls = new StreamControls(this);
    onColorsChanged(() => {
      this.layOut();
      this.frame();  // no other one comes before a print
    });
    new ResizeObserver(() => this.layOut()).observe(byId("stream-area"));
    new IntersectionObserver(([entry]) => { this.onScreen = entry.isIntersecting; }).observe(byId("stream-area"));
    this.canvas.stream = this;  // for tests
    const frame = () => {
      this.frame();
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  fresh() {
    this.store = new SpanStore();
    this.now = 0;
    this.clockOffset = null;
    this.ranks = [];
    this.marks = new Map();  // rank: late or stalled
    this.awaited = [];       // the same, of the rank for which others wait
    this.late = [];
    this.changed = true;
    this.hasEnded = this.axes.hasEnded = false;
    this.pausedAt = null;
    byId("stream-area").hidden = true;
    byId("stream-empty").hidden = false;
    this.controls?.show();
  }

  job(job) {
    this.ranks = [...job.ranks].sort((left, right) => left.rank - right.rank);
    this.store.setRanks(this.ranks.length);
    this.layOut();
  }

  update(update) {
    this.followClock(update.now);
    this.mark(update);
    if (!update.spans?.length) return;
    this.store.add(update.spans, Math.min(this.now, this.pausedAt ?? this.now) - kKept);
    this.changed = true;
    if (!byId("stream-area").hidden) return;
    byId("stream-area").hidden = false;
    byId("stream-empty").hidden = true;
    this.layOut();
  }

  mark({ late, line }) {
    if (late) this.late = late.ranks.filter(isLate).map(({ rank }) => rank);
    const isAwaited = line && ["waiting", "stalled"].includes(line.state) && line.rank !== undefined;
    if (line) this.awaited = isAwaited ? [[line.rank, line.pause ? "late" : "stalled"]] : [];
    const marks = new Map([...this.late.map((rank) => [rank, "late"]), ...this.awaited]);
    if (String([...marks]) === String([...this.marks])) return;
    this.marks = this.axes.marks = marks;
    this.drawnWindow = null;
    this.changed = true;
  }

  end() {
    this.hasEnded = this.axes.hasEnded = true;
    const [first, last] = this.store.extent() ?? [0, this.now];
    if (this.pausedAt === null) this.pausedAt = Math.min(this.now, last);
    this.window = Math.max(kShortest, Math.min(this.window, this.pausedAt - first));
    this.drawnWindow = null;
    this.changed = true;
    this.controls.show();
  }

  // The time of the feed goes on between updates. Small differences are spread over many updates, so that the view moves evenly.
  followClock(now) {
    this.now = now;
    const offset = now - performance.now() / 1000;
    if (this.clockOffset === null || Math.abs(offset - this.clockOffset) > 1) this.clockOffset = offset;
    else this.clockOffset += 0.1 * (offset - this.clockOffset);
  }

  right() {
    if (this.pausedAt !== null) return this.pausedAt;
    if (reducedMotion.matches) return this.now - kLag;
    return Math.min(performance.now() / 1000 + this.clockOffset, this.now + 5) - kLag;
  }

  left() {
    return this.right() - this.window;
  }

  setPaused(paused) {
    if (this.hasEnded) return;
    this.pausedAt = paused ? this.pausedAt ?? this.right() : null;
    this.changed = true;
  }

  zoom(factor) {
    this.window = Math.max(kShortest, Math.min(kKept, this.window * factor));
    this.changed = true;
  }

  moveTo(right) {
    this.pausedAt = Math.max(this.now - kKept + this.window, Math.min(this.now, right));
    this.changed = true;
  }

  // Sizes depend on ranks, width and scale of the screen: 1 pixel a rank at least, 26 at most.
  layOut() {
    const width = byId("stream-area").clientWidth, ranks = Math.max(1, this.ranks.length, this.store.rings.length);
    if (!width) return;
    const scale = devicePixelRatio || 1, pitch = Math.max(1, Math.round(scale * Math.min(26, 512 / ranks)));
    const gap = pitch >= 4 * scale ? Math.round(pitch >= 14 * scale ? 3 * scale : scale) : 0;
    const gutter = Math.round(scale * (width < 500 ? 42 : 64)), plotWidth = Math.round(width * scale) - gutter, height = ranks * pitch;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = height + Math.round(22 * scale);
    this.canvas.style.height = `${this.canvas.height / scale}px`;
    this.pixels.resize(plotWidth, ranks, pitch, gap);
    this.pixels.setColors(kPhases.map((phase) => pixelOf(color(`phase-${phase}`))), pixelOf(color("ground")), pixelOf(color("paper")));
    this.axes.layOut({ scale, gutter, pitch, gap, plotWidth, height, ranks: this.ranks, marks: this.marks });
    this.drawnWindow = null;
    this.changed = true;
  }

  // Off the screen it draws once, for a print.
  frame() {
    if (this.clockOffset === null || (!this.onScreen && this.drawnWindow) || byId("stream-area").hidden) return;
    const moves = this.pausedAt === null && !reducedMotion.matches;
    if (!moves && !this.changed) return;
    const begin = performance.now();
    this.changed = false;
    if (this.drawnWindow !== this.window) this.axes.draw(this.drawnWindow = this.window);
    this.pixels.paint(this.store.rings, this.left(), this.window);
    this.context.putImageData(this.pixels.image, this.axes.gutter, 0);
    this.controls.drawn();
    this.showLegend();
    ++this.frames;
    this.drawMs = performance.now() - begin;
  }

  showLegend() {
    if (performance.now() < (this.legendAt ?? 0)) return;
    this.legendAt = performance.now() + kLegendPause;
    const whole = this.pixels.seconds.reduce((sum, seconds) => sum + seconds, 0) || 1;
    keepChildren(byId("stream-legend"), kPhases, (phase) => phase, (phase) => {
      const made = node("li"), key = node("span", "key");
      key.dataset.phase = phase;
      made.append(key, node("span", "", kPhaseWords[phase]), node("span", "share"));
      return made;
    }, (made, phase) => {
      const share = this.pixels.seconds[kPhases.indexOf(phase)] / whole;
      made.classList.toggle("absent", share === 0);
      setText(made.lastElementChild, share === 0 ? "" : percent(share));
    });
  }

  // The index of a row's span at a time, and -1 where there is none.
  spanAt(row, time) {
    const ring = this.store.rings[row], index = ring ? ring.after(time) : 0;
    return ring && index < ring.size && ring.span(index).begin <= time ? index : -1;
  }

  words(row, time) {
    const ring = this.store.rings[row], rank = this.ranks[row], index = this.spanAt(row, time);
    const name = `rank ${rank?.rank ?? row}${rank?.host ? ` on ${rank.host}` : ""}`, ago = `${duration(Math.max(0, this.now - time))} ago`;
    if (index >= 0) {
      const { phase, step, seconds } = ring.span(index);
      return `${name}: ${kPhaseWords[phase]}, step ${count(step)}, ${duration(seconds)}; ${ago}`;
    }
    const before = ring ? ring.after(time) - 1 : -1;
    if (before < 0) return `${name}: nothing recorded ${ago}`;
    const { phase, step } = ring.span(before);
    return `${name}: nothing recorded ${ago}, after ${kPhaseWords[phase]} of step ${count(step)}`;
  }
}

export const kPhaseWords = {
  data: "data", forward: "forward", backward: "backward", wait: "waits for others", moves: "moves gradients", step: "optimizer step",
  evaluation: "evaluation", checkpoint: "checkpoint", garbage: "garbage collection", other: "other code",
};
