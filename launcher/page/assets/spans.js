// SPDX-License-Identifier: Apache-2.0
// The phases of the last 60 seconds: a ring of typed arrays for each rank.
export const kPhases = ["data", "forward", "backward", "wait", "moves", "step", "evaluation", "checkpoint", "garbage", "other"];
export const kKept = 60;  // seconds
const kSmallest = 256, kLargest = 16384, kLargestOfAll = 1 << 21;
const kShared = new Set(["wait", "moves"]);
const phaseNumbers = new Map(kPhases.map((phase, number) => [phase, number]));

// Spans of one rank, in the order of their beginnings. Capacities are powers of two.
export class SpanRing {
  constructor(mostSpans) {
    this.mostSpans = mostSpans;
    this.first = this.size = 0;
    this.reserve(kSmallest);
  }

  reserve(capacity) {
    const old = { begin: this.begin, length: this.length, step: this.step, phase: this.phase };
    this.begin = new Float64Array(capacity);
    this.length = new Float32Array(capacity);
    this.step = new Uint32Array(capacity);
    this.phase = new Uint8Array(capacity);
    for (let index = 0; index < this.size; ++index) {
      const slot = this.slot(index);
      for (const name in old) this[name][index] = old[name][slot];
    }
    this.first = 0;
    this.mask = capacity - 1;
  }

  slot(index) {
    return (this.first + index) & this.mask;
  }

  // A span that still goes on comes again, with the same beginning and a later end.
  add(phase, step, begin, end) {
    let index = this.size;
    while (index > 0 && this.begin[this.slot(index - 1)] > begin) --index;
    const isSame = index > 0 && this.begin[this.slot(index - 1)] === begin;
    if (isSame) --index; else index = this.insert(index);
    const slot = this.slot(index);
    this.begin[slot] = begin;
    this.length[slot] = end - begin;
    this.step[slot] = step;
    this.phase[slot] = phaseNumbers.get(phase) ?? kPhases.length - 1;
  }

  // Makes room for one span before `index`; returns the index that it then has.
  insert(index) {
    if (this.size > this.mask) {
      if (this.size < this.mostSpans) {
        this.reserve(2 * this.size);
      } else {
        this.dropFirst();
        index = Math.max(0, index - 1);
      }
    }
    for (let other = this.size++; other > index; --other) {
      const to = this.slot(other), from = this.slot(other - 1);
      for (const array of [this.begin, this.length, this.step, this.phase]) array[to] = array[from];
    }
    return index;
  }

  dropFirst() {
    this.first = (this.first + 1) & this.mask;
    --this.size;
  }

  dropBefore(time) {
    while (this.size > 0 && this.end(0) < time) this.dropFirst();
  }

  end(index) {
    const slot = this.slot(index);
    return this.begin[slot] + this.length[slot];
  }

  // The index of the first span that ends after `time`; `size` if there is none.
  after(time) {
    let low = 0, high = this.size;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.end(middle) > time) high = middle; else low = middle + 1;
    }
    return low;
  }

  // The beginning of the first span that is no wait for others.
  firstWork() {
    for (let index = 0; index < this.size; ++index) if (!kShared.has(this.span(index).phase)) return this.span(index).begin;
    return this.span(0).begin;
  }

  span(index) {
    const slot = this.slot(index);
    return { phase: kPhases[this.phase[slot]], step: this.step[slot], begin: this.begin[slot], seconds: this.length[slot] };
  }
}

// The rings of all ranks, by rank.
export class SpanStore {
  constructor() {
    this.rings = [];
  }

  setRanks(count) {
    const share = 2 ** Math.floor(Math.log2(kLargestOfAll / Math.max(1, count)));
    this.mostSpans = Math.max(kSmallest, Math.min(kLargest, share));
    while (this.rings.length < count) this.rings.push(new SpanRing(this.mostSpans));
    this.rings.length = count;
  }

  // From where half of the ranks have whole steps, up to the end of the last span; null without spans. Of the oldest steps the waits remain alone.
  extent() {
    const full = this.rings.filter((ring) => ring.size > 0);
    if (!full.length) return null;
    const firsts = full.map((ring) => ring.firstWork()).sort((left, right) => left - right);
    return [firsts[firsts.length >> 1], Math.max(...full.map((ring) => ring.end(ring.size - 1)))];
  }

  add(spans, oldest) {
    for (const [rank, phase, step, begin, end] of spans) {
      if (rank >= this.rings.length) this.setRanks(rank + 1);
      this.rings[rank].add(phase, step, begin, end);
    }
    for (const ring of this.rings) ring.dropBefore(oldest);
  }
}
