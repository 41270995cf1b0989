// SPDX-License-Identifier: Apache-2.0
// The Plans: the ways by which tensors move, how often, how long, and what the cost model says.
import { bar, byId, keepChildren, node, setShare, setText } from "./dom.js";
import { count, duration, percent, plural } from "./words.js";

const kFew = 8, kPause = 1000;
const kUnits = ["B", "KiB", "MiB", "GiB", "TiB"];

// Sizes of Plans are powers of two.
function binary(number) {
  let unit = 0;
  for (; number >= 1024 && unit + 1 < kUnits.length; ++unit) number /= 1024;
  return `${Number(number.toPrecision(3))} ${kUnits[unit]}`;
}

const microseconds = (number) => duration(number * 1e-6);
const keyOf = ({ operation, dtype, size, backend, inside, between, sent_as: sentAs, ends_on_device: device }) => [operation, dtype, size, backend, inside, between, sentAs, device].join("|");

function settingsInWords(settings) {
  const { fusion_threshold: fusion, cycle_ms: cycle, chunk_bytes: chunk, route_bytes: route, is_tuned: tuned, tuner_samples: samples, tuner_words: words } = settings;
  const parts = [`Tensors are fused up to ${binary(fusion)}, and wait for others ${duration(cycle / 1000)} at most.`, `Messages have up to ${binary(chunk)}.`];
  if (route !== undefined) parts.push(`Plans above ${binary(route)} take the second backend.`);
  parts.push(tuned ? `The tuner has taken ${plural(samples, "sample")}${words ? `: ${words}` : ""}.` : "Nothing is tuned.");
  return parts.join(" ");
}

export class Plan {
  constructor() {
    this.showsAll = false;
    byId("plan-all").addEventListener("click", () => {
      this.showsAll = !this.showsAll;
      this.show();
    });
  }

  fresh() {
    this.plan = null;
    this.show();
  }

  update({ plan }) {
    if (!plan) return;
    this.plan = plan;
    if (this.showsAll && performance.now() < (this.shownAt ?? 0) + kPause) return;
    this.show();
  }

  show() {
    this.shownAt = performance.now();
    const routes = this.plan?.routes ?? [], settings = this.plan?.settings;
    byId("plan-empty").hidden = routes.length > 0;
    byId("plan-scroll").hidden = routes.length === 0;
    setText(byId("plan-settings"), settings ? settingsInWords(settings) : "");
    byId("plan-device").hidden = !routes.some(({ ends_on_device: device }) => device);
    byId("plan").classList.toggle("no-model", !routes.some(({ predicted_us: predicted }) => predicted !== undefined));
    keepChildren(byId("plan-rows"), this.showsAll ? routes : routes.slice(0, kFew), keyOf, (route) => this.makeRow(route), (row, route) => this.refresh(row, route));
    const left = [];
    if (this.plan?.more) left.push(`${plural(this.plan.more, "kind")} of Plans with less time not shown`);
    if (this.plan?.uncounted) left.push(`${plural(this.plan.uncounted, "Plan")} not counted: there are too many kinds`);
    setText(byId("plan-left"), left.join("; "));
    const button = byId("plan-all");
    button.hidden = routes.length <= kFew;
    setText(button, this.showsAll ? `Show the ${kFew} with the most time` : `Show all ${routes.length} kinds`);
  }

  makeRow({ operation, dtype, size, route, sent_as: sentAs }) {
    const row = node("tr"), head = node("th", "", `${operation} `), share = node("td", "wide");
    head.scope = "row";
    head.append(node("span", "note", dtype));
    share.append(bar("bar slim"), node("span"));
    row.append(head, node("td", "", `≤ ${size}`), node("td", "", sentAs === "none" ? route : `${route}, as ${sentAs}`), ...Array.from({ length: 3 }, () => node("td")), node("td", "model"), share);
    return row;
  }

  refresh(row, { plans, ranks, tensors, per_s: perSecond, mean_us: mean, fastest_us: fastest, recent_us: recent, ends_on_device: device, inside, predicted_us: predicted, recent_predicted_us: recentPredicted, share }) {
    const [, , , times, fused, took, model, part] = row.children;
    setText(times, `${count(plans / ranks)}${perSecond ? `, ${Number(perSecond.toPrecision(2))} a second` : ""}`);
    setText(fused, (tensors / plans).toFixed(1));
    setText(took, `${microseconds(recent ?? mean)}${device ? " *" : ""}`);
    took.title = `mean since the start ${microseconds(mean)}, fastest ${microseconds(fastest)}`;
    const expected = recent === undefined ? predicted : recentPredicted ?? predicted;
    setText(model, expected === undefined ? "" : microseconds(expected));
    model.classList.toggle("bad", expected !== undefined && !inside && (recent ?? mean) > 2 * expected);  // the model leaves out the time inside of a host
    setShare(part.firstElementChild, share);
    setText(part.lastElementChild, percent(share));
  }
}
