// SPDX-License-Identifier: Apache-2.0
// Hosts: processor, memory, and the bytes of each card against its limit.
import { bar, byId, keepChildren, node, setShare, setText } from "./dom.js";
import { bytes, percent, plural } from "./words.js";

const kFull = 0.9;

function meter(made, share, text) {
  setShare(made.firstElementChild, share);
  made.firstElementChild.classList.toggle("full", share >= kFull);
  setText(made.lastElementChild, text);
}

function makeMeter(name, className) {
  const made = node(name, className);
  made.append(bar("bar slim"), node("span"));
  return made;
}

export class Hosts {
  constructor() {
    this.carried = new Map();  // host: names of the cards that have carried something; it outlives a lost connection
  }

  fresh() {
    this.known = new Map();
    this.load = new Map();
    this.ranks = new Map();
    this.show();
  }

  job(job) {
    if (this.startedAt !== job.started_at) this.carried.clear();
    this.startedAt = job.started_at;
    this.ranks = new Map();
    for (const { rank, host } of job.ranks) this.ranks.set(host, [...this.ranks.get(host) ?? [], rank]);
    this.known = new Map(job.hosts.map((host) => [host.name, host]));
    this.show();
  }

  update({ hosts }) {
    if (!hosts) return;
    for (const host of hosts) {
      this.load.set(host.name, host);
      const carried = this.carried.get(host.name) ?? new Set();
      for (const card of host.cards ?? []) if (card.sent_per_s > 0 || card.received_per_s > 0) carried.add(card.name);
      this.carried.set(host.name, carried);
    }
    this.show();
  }

  show() {
    byId("hosts-empty").hidden = this.known.size > 0;
    byId("hosts-scroll").hidden = this.known.size === 0;
    const hasLimits = [...this.known.values()].some(({ name, cards }) => cards.some((card) => card.limit_bytes_per_s && !this.isIdle(name, card)));
    byId("hosts").classList.toggle("no-limits", !hasLimits);
    byId("hosts").classList.toggle("no-gpus", ![...this.load.values()].some(({ gpus }) => gpus?.length));
    keepChildren(byId("hosts-rows"), this.known.values(), ({ name }) => name, (host) => {
      const row = node("tr"), head = node("th", "", host.name), cards = node("td", "cards"), gpus = node("td", "gpus");
      gpus.append(node("div", "card-list"));
      head.scope = "row";
      cards.append(node("div", "card-list"), node("div", "idle"));
      row.append(head, node("td"), makeMeter("td", "wide"), makeMeter("td", "wide"), gpus, cards);
      return row;
    }, (row, host) => this.refresh(row, host));
  }

  refresh(row, host) {
    const [, ranks, busy, memory, gpus, cards] = row.children, load = this.load.get(host.name);
    setText(ranks, this.rankWords(host.name));
    meter(busy, load?.busy ?? 0, load ? `${percent(load.busy)} of ${plural(host.cores, "core")}` : plural(host.cores, "core"));
    const used = load?.memory_used;
    meter(memory, used && host.memory_bytes ? used / host.memory_bytes : 0,
          used ? `${bytes(used)} of ${bytes(host.memory_bytes)}` : bytes(host.memory_bytes));
    this.refreshGpus(gpus.firstElementChild, load?.gpus ?? []);
    const idle = host.cards.filter((card) => this.isIdle(host.name, card)), others = host.cards.filter((card) => !idle.includes(card));
    setText(cards.lastElementChild, idle.length ? `${others.length ? "and " : ""}${plural(idle.length, "idle card")}` : "");
    cards.lastElementChild.title = idle.map(({ name }) => name).join(", ");
    keepChildren(cards.firstElementChild, others, ({ name }) => name, ({ name }) => {
      const made = node("div", "card");
      made.append(node("span", "name", name), makeMeter("div", "meter"), makeMeter("div", "meter"));
      return made;
    }, (made, card) => this.refreshCard(made, card, load?.cards?.find(({ name }) => name === card.name)));
  }

  refreshGpus(list, gpus) {
    keepChildren(list, gpus.map((gpu, number) => ({ ...gpu, number })), ({ number }) => number, ({ number }) => {
      const made = node("div", "card");
      made.append(node("span", "name", String(number)), makeMeter("div", "meter"), makeMeter("div", "meter"), node("span"));
      return made;
    }, (made, gpu) => {
      const [head, busy, memory, heat] = made.children;
      head.title = gpu.name;
      meter(busy, gpu.busy ?? 0, gpu.busy === undefined ? "not known" : percent(gpu.busy));
      meter(memory, gpu.memory_bytes ? gpu.memory_used / gpu.memory_bytes : 0, `${bytes(gpu.memory_used)} of ${bytes(gpu.memory_bytes)}`);
      setText(heat, gpu.celsius === undefined ? "" : `${gpu.celsius} °C`);
    });
  }

  // Known to have carried nothing since the page was opened.
  isIdle(host, { name }) {
    const load = this.load.get(host)?.cards?.find((card) => card.name === name);
    return load !== undefined && !this.carried.get(host)?.has(name);
  }

  refreshCard(made, { limit_bytes_per_s: limit }, load) {
    const against = limit ? ` of ${bytes(limit)}/s` : "/s";
    const line = (child, arrow, rate) => {
      meter(child, limit && rate ? rate / limit : 0, rate === undefined ? `${arrow} …` : `${arrow} ${bytes(rate)}${against}`);
      child.firstElementChild.classList.toggle("unlimited", !limit);
    };
    line(made.children[1], "↑", load?.sent_per_s);
    line(made.children[2], "↓", load?.received_per_s);
  }

  rankWords(name) {
    const ranks = this.ranks.get(name) ?? [];
    const isRun = ranks.length > 2 && ranks.at(-1) - ranks[0] === ranks.length - 1;
    return isRun ? `${ranks[0]} – ${ranks.at(-1)}` : ranks.join(", ");
  }
}
