// SPDX-License-Identifier: Apache-2.0
// Paints the spans in view, row by row, into the pixels of one image. A pixel shows the longest of its phases.
// Cost of a frame: spans in view and pixels, once each; no state of the canvas changes in between.
import { kPhases } from "./spans.js";

export class StreamPixels {
  // Sizes are in device pixels.
  resize(width, rows, pitch, gap) {
    Object.assign(this, { width, rows, pitch, rowHeight: pitch - gap });
    this.image = new ImageData(Math.max(1, width), Math.max(1, rows * pitch));
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.cover = new Float64Array(kPhases.length);
    this.seconds = new Float64Array(kPhases.length);
  }

  setColors(phases, ground, paper) {
    this.colors = Uint32Array.from(phases);
    this.ground = ground;
    this.pixels.fill(paper);
  }

  // Leaves in `seconds` how long all ranks were in each phase.
  paint(rings, left, secondsInView) {
    this.seconds.fill(0);
    const perPixel = secondsInView / this.width;
    for (let row = 0; row < this.rows; ++row) {
      const start = row * this.pitch * this.width;
      this.pixels.fill(this.ground, start, start + this.width);
      if (rings[row]) this.paintRow(rings[row], start, left, perPixel);
      for (let line = 1; line < this.rowHeight; ++line) this.pixels.copyWithin(start + line * this.width, start, start + this.width);
    }
    for (let phase = 0; phase < this.seconds.length; ++phase) this.seconds[phase] *= perPixel;
  }

  paintRow(ring, start, left, perPixel) {
    const { width, pixels, colors, cover, seconds } = this, { begin, length, phase: phases, mask } = ring;
    let pixel = 0, best = -1;  // the pixel that several spans share, and its longest phase so far
    const flush = () => {
      if (best < 0) return;
      pixels[start + pixel] = colors[best];
      cover.fill(0);
      best = -1;
    };
    for (let index = ring.after(left); index < ring.size; ++index) {
      const slot = (ring.first + index) & mask, phase = phases[slot];
      const from = Math.max(0, (begin[slot] - left) / perPixel), to = Math.min(width, (begin[slot] + length[slot] - left) / perPixel);
      if (from >= width) break;
      if (to <= from) continue;
      seconds[phase] += to - from;
      const first = Math.floor(from), last = Math.floor(to);
      if (first !== pixel) flush();
      pixel = first;
      cover[phase] += Math.min(to, first + 1) - from;
      if (best < 0 || cover[phase] >= cover[best]) best = phase;
      if (last === first) continue;
      flush();
      pixels.fill(colors[phase], start + first + 1, start + last);
      pixel = last;
      if (to === last) continue;
      cover[phase] = to - last;
      best = phase;
    }
    if (pixel < width) flush();
  }
}
