// SPDX-License-Identifier: Apache-2.0
// Pointer, wheel and keys of the task stream: zoom, pause, and one chosen span, described in words.
import { byId, setText } from "./dom.js";

const kZoom = 1.25;

export class StreamControls {
  constructor(stream) {
    this.stream = stream;
    this.pointer = null;   // { x, y } over the canvas
    this.selected = null;  // { row, time } by keys
    const canvas = stream.canvas;
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerdown", (event) => this.point(event));
    canvas.addEventListener("pointerleave", () => { this.pointer = this.grip = null; stream.changed = true; });
    canvas.addEventListener("pointerup", () => { this.grip = null; });
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => { this.selected = null; stream.changed = true; });
    byId("stream-pause").addEventListener("click", () => this.pause(stream.pausedAt === null));
    byId("stream-shorter").addEventListener("click", () => this.zoom(1 / kZoom ** 2));
    byId("stream-longer").addEventListener("click", () => this.zoom(kZoom ** 2));
    this.show();
  }

  pause(paused) {
    this.stream.setPaused(paused);
    this.show();
  }

  zoom(factor) {
    this.stream.zoom(factor);
    this.show();
  }

  show() {
    const { window: seconds, pausedAt, hasEnded } = this.stream, paused = pausedAt !== null;
    setText(byId("stream-window"), `${Number(seconds.toPrecision(2))} s`);
    setText(byId("stream-pause"), hasEnded ? "Ended" : paused ? "Go on" : "Pause");
    byId("stream-pause").setAttribute("aria-pressed", String(paused));
    byId("stream-pause").disabled = hasEnded;
  }

  point(event) {
    const box = this.stream.canvas.getBoundingClientRect();
    this.pointer = { x: event.clientX - box.left, y: event.clientY - box.top };
    this.stream.changed = true;
    if (event.buttons === 0 || event.pointerType === "touch") return;
    this.grip ??= { x: this.pointer.x, right: this.stream.right() };
    if (Math.abs(this.pointer.x - this.grip.x) < 3) return;
    const moved = this.stream.axes.shareAt(this.pointer.x) - this.stream.axes.shareAt(this.grip.x);
    this.stream.moveTo(this.grip.right - moved * this.stream.window);
    this.show();
  }

  // A wheel turns the page unless the canvas has the focus or a zoom is meant.
  wheel(event) {
    if (document.activeElement !== this.stream.canvas && !event.ctrlKey && !event.altKey) return;
    event.preventDefault();
    this.zoom(event.deltaY > 0 ? kZoom : 1 / kZoom);
  }

  key(event) {
    const acts = {
      "+": () => this.zoom(1 / kZoom), "=": () => this.zoom(1 / kZoom), "-": () => this.zoom(kZoom), " ": () => this.pause(this.stream.pausedAt === null),
      ArrowLeft: () => this.walk(-1), ArrowRight: () => this.walk(1), ArrowUp: () => this.climb(-1), ArrowDown: () => this.climb(1),
      PageUp: () => this.climb(-32), PageDown: () => this.climb(32), Escape: () => this.leave(),
    };
    const act = event.ctrlKey || event.metaKey || event.altKey ? null : acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  leave() {
    this.selected = this.pointer = null;
    this.pause(false);
  }

  // The first arrow pauses, and chooses the newest span of rank 0.
  select() {
    this.pause(true);
    if (this.selected) return false;
    this.selected = { row: 0, time: this.stream.right() };
    return true;
  }

  walk(way) {
    const isNew = this.select(), { row, time } = this.selected, ring = this.stream.store.rings[row];
    if (!ring?.size) return;
    const at = ring.after(time), index = isNew ? ring.size - 1 : at + way;
    const { begin, seconds } = ring.span(Math.max(0, Math.min(ring.size - 1, index)));
    this.selected.time = begin + seconds / 2;
    if (this.selected.time < this.stream.left() || this.selected.time > this.stream.right()) this.stream.moveTo(this.selected.time + this.stream.window / 2);
    this.tell();
  }

  climb(way) {
    if (!this.select()) this.selected.row = Math.max(0, Math.min(this.stream.store.rings.length - 1, this.selected.row + way));
    this.tell();
  }

  tell() {
    this.stream.changed = true;
    setText(byId("stream-words"), this.stream.words(this.selected.row, this.selected.time));
  }

  // After each frame: the mark and the words of the span at the pointer, or of the chosen one.
  drawn() {
    const { stream } = this, tip = byId("stream-tip"), { axes } = stream;
    const at = this.selected ?? this.pointed();
    tip.hidden = !at;
    if (!at) return;
    const left = stream.left(), index = stream.spanAt(at.row, at.time);
    if (index >= 0) {
      const { begin, seconds } = stream.store.rings[at.row].span(index);
      axes.mark(at.row, begin - left, begin + seconds - left, stream.window);
    }
    setText(tip, stream.words(at.row, at.time));
    const width = stream.canvas.clientWidth, x = this.selected ? axes.xOf((at.time - left) / stream.window) : this.pointer.x;
    const y = (at.row + 1) * axes.pitch / axes.scale + 8;
    tip.style.left = `${Math.max(0, Math.min(width - tip.offsetWidth, x - tip.offsetWidth / 2))}px`;
    tip.style.top = `${y}px`;
  }

  pointed() {
    if (!this.pointer) return null;
    const { stream } = this, share = stream.axes.shareAt(this.pointer.x);
    if (share < 0 || share > 1 || this.pointer.y * stream.axes.scale > stream.axes.height) return null;
    return { row: stream.axes.rowAt(this.pointer.y), time: stream.left() + share * stream.window };
  }
}
