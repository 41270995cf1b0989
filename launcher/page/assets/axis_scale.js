// SPDX-License-Identifier: Apache-2.0
// Linear and logarithmic axes: the places of values, and round labels.
import { value } from "./words.js";

const kSlack = 1e-9;
const kFewPowers = 2.5;  // of ten: then 2 and 5 have labels, too

const bases = { linear: 0, log2: 2, log10: 10 };

export class AxisScale {
  constructor(name) {
    this.base = bases[name] ?? 0;
  }

  place(number) {
    return this.base ? Math.log(number) / Math.log(this.base) : number;
  }

  // The value at a place.
  at(place) {
    return this.base ? this.base ** place : place;
  }

  // Labels from one place to another, at most `most` of them, as [value, text].
  labels(from, to, most) {
    const fewest = this.base ? this.powers(from, to, most) : [];
    const found = fewest.length >= 2 ? fewest : roundNumbers(this.at(from), this.at(to), most);
    return found.map((number) => [number, value(Number(number.toPrecision(12)))]);
  }

  powers(from, to, most) {
    const stride = Math.max(1, Math.ceil((to - from) / Math.max(1, most - 1)));
    const between = this.base === 10 && to - from <= kFewPowers ? [1, 2, 5] : [1], found = [];
    const first = stride > 1 ? Math.ceil(from - kSlack) : Math.floor(from);
    for (let power = first; power <= Math.ceil(to); power += stride) found.push(...between.map((factor) => factor * this.base ** power));
    const inside = found.filter((number) => this.place(number) >= from - kSlack && this.place(number) <= to + kSlack);
    return inside.length <= most ? inside : inside.filter((number) => Math.abs(this.place(number) % 1) < kSlack);
  }
}

// Multiples of 1, 2 or 5 times a power of ten.
export function roundNumbers(from, to, most) {
  const least = (to - from) / Math.max(1, most);
  if (!(least > 0) || !Number.isFinite(least)) return [];
  const power = 10 ** Math.floor(Math.log10(least) + kSlack);
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= least * (1 - kSlack));
  const found = [];
  for (let index = Math.ceil(from / step - kSlack); index * step <= to + step * kSlack; ++index) found.push(index * step + 0);  // not -0
  return found;
}
