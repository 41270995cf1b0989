// SPDX-License-Identifier: Apache-2.0
// The names of the lines of some charts. A click hides a line and shows it again; the pointer and the focus bring it out.
import { keyOf } from "./comparison_chart.js";
import { node } from "./dom.js";
import { lineKey } from "./line_look.js";

const kOrder = ["own", "published", "ideal"];

export class LineLegend {
  constructor(charts) {
    this.hidden = new Set();
    this.outstanding = null;
    this.list = node("ul", "legend lines");
    const lines = new Map(charts.flatMap((chart) => chart.lines).map((line) => [keyOf(line), line]));
    const order = (line) => kOrder.indexOf(line.kind);
    for (const line of [...lines.values()].sort((left, right) => order(left) - order(right) || (left.kind === "own" ? left.index - right.index : 0))) {
      const item = node("li"), button = node("button", line.kind);
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.append(lineKey(line), line.name);
      button.addEventListener("click", () => this.toggle(line, button));
      for (const name of ["pointerenter", "focus"]) button.addEventListener(name, () => this.bringOut(line));
      for (const name of ["pointerleave", "blur"]) button.addEventListener(name, () => this.bringOut(null));
      item.append(button);
      this.list.append(item);
    }
  }

  // `act` is called after a change.
  follow(act) {
    this.act = act;
  }

  toggle(line, button) {
    const key = keyOf(line), isShown = this.hidden.delete(key);
    if (!isShown) this.hidden.add(key);
    button.setAttribute("aria-pressed", String(isShown));
    this.act?.();
  }

  bringOut(line) {
    const key = line && !this.isHidden(line) ? keyOf(line) : null;
    if (key === this.outstanding) return;
    this.outstanding = key;
    this.act?.();
  }

  isHidden(line) {
    return this.hidden.has(keyOf(line));
  }

  isFaded(line) {
    return this.outstanding !== null && this.outstanding !== keyOf(line);
  }
}
