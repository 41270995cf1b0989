// SPDX-License-Identifier: Apache-2.0
// Who is late: means, scores and arrivals of each rank, and the time without a rank's lateness.
import { bar, byId, keepChildren, node, setShare, setText } from "./dom.js";
import { about, count, duration, percent, plural } from "./words.js";

const kFew = 8, kPause = 1000;
const kSlots = ["less than 0.1", "0.1 to 0.3", "0.3 to 1", "1 to 3", "3 to 10", "10 to 30", "30 to 100", "100 to 300", "300 to 1000", "more than 1000"];
const kNotable = 0.5, kLarge = 2;  // percent: of late ranks
const kSvg = "http://www.w3.org/2000/svg";

function histogram() {
  const made = document.createElementNS(kSvg, "svg");
  made.setAttribute("viewBox", "0 0 100 20");
  made.setAttribute("role", "img");
  made.append(...kSlots.map((_, slot) => {
    const rect = document.createElementNS(kSvg, "rect");
    rect.setAttribute("x", slot * 10 + 0.5);
    rect.setAttribute("width", 9);
    return rect;
  }));
  return made;
}

function fill(made, counts) {
  const most = Math.max(1, ...counts);
  [...made.children].forEach((rect, slot) => {
    const height = counts[slot] ? Math.max(1.5, 20 * counts[slot] / most) : 0.5;
    rect.setAttribute("y", 20 - height);
    rect.setAttribute("height", height);
  });
  made.setAttribute("aria-label", kSlots.flatMap((slot, index) => counts[index] ? [`${plural(counts[index], "time")} ${slot} ms`] : []).join(", "));
}

function score(cell, number, late) {
  setText(cell, number === undefined || number === null ? "" : number.toFixed(2));
  cell.classList.toggle("bad", late && typeof number === "number" && number < 0.85);
}

export const isLate = ({ since_step: step }) => step !== undefined;

export class Late {
  constructor() {
    this.showsAll = false;
    byId("late-all").addEventListener("click", () => {
      this.showsAll = !this.showsAll;
      this.show();
    });
  }

  fresh() {
    this.late = null;
    byId("late-scroll").hidden = byId("late-all").hidden = true;
    setText(byId("late-steps"), "");
    setText(byId("late-verdict"), "No step of two ranks yet.");
    byId("late").classList.remove("found");
  }

  // Moments move away from now when nothing else is new, too.
  update({ late, now }) {
    this.now = now;
    this.late = late ?? this.late;
    if (!this.late) return;
    if (this.late.ranks.length === 0) return this.fresh();  // of another generation
    if (this.showsAll && performance.now() < (this.shownAt ?? 0) + kPause) return;
    this.show();
  }

  show() {
    this.shownAt = performance.now();
    const ranks = [...this.late.ranks].sort((left, right) => right.late_ms - left.late_ms || left.rank - right.rank);
    byId("late-scroll").hidden = ranks.length === 0;
    setText(byId("late-steps"), `last ${plural(this.late.steps, "step")}`);
    this.showVerdict(ranks);
    const most = Math.max(1e-9, ...ranks.map(({ late_ms: ms }) => ms));
    keepChildren(byId("late-rows"), this.showsAll ? ranks : ranks.slice(0, kFew), ({ rank }) => rank, (item) => this.makeRow(item), (row, item) => this.refresh(row, item, most));
    const button = byId("late-all");
    button.hidden = ranks.length <= kFew;
    setText(button, this.showsAll ? `Show the ${kFew} latest` : `Show all ${count(ranks.length)} ranks`);
  }

  showVerdict(ranks) {
    const whatIf = (this.late.what_if ?? []).filter(({ faster_percent: faster }) => faster >= kNotable).sort((left, right) => right.faster_percent - left.faster_percent);
    byId("late").classList.toggle("found", whatIf.some(({ faster_percent: faster }) => faster >= kLarge));
    const sentences = whatIf.slice(0, 3).map(({ rank, faster_percent: faster }) => {
      const known = ranks.find((one) => one.rank === rank), more = [];
      if (known && isLate(known)) more.push(`since step ${count(known.since_step)}`);
      if (known?.phase) more.push(`in ${known.phase}`);
      return `${Number(faster.toPrecision(2))} % faster without rank ${rank}'s lateness${more.length ? ` (${more.join(", ")})` : ""}.`;
    });
    setText(byId("late-verdict"), sentences.join(" ") || `No rank holds the others up: none costs ${kNotable} % or more.`);
  }

  makeRow({ rank }) {
    const row = node("tr"), head = node("th", "", `rank ${rank}`), late = node("td", "wide"), last = node("td");
    head.scope = "row";
    late.append(bar("bar slim"), node("span"));
    last.append(histogram());
    row.append(head, late, ...Array.from({ length: 5 }, () => node("td")), last);
    return row;
  }

  refresh(row, item, most) {
    const [, late, share, best, own, since, phase, arrivals] = row.children;
    setShare(late.firstElementChild, item.late_ms / most);
    setText(late.lastElementChild, duration(item.late_ms / 1000));
    setText(share, percent(item.share));
    score(best, item.score_best, isLate(item));
    score(own, item.score_own, isLate(item));
    const ago = this.now - item.since;
    setText(since, isLate(item) ? `step ${count(item.since_step)}${ago >= 0 ? `, ${about(ago)} ago` : ""}` : "");
    setText(phase, item.phase ?? "");
    fill(arrivals.firstElementChild, item.histogram ?? []);
    row.classList.toggle("found", isLate(item));
  }
}
