// SPDX-License-Identifier: Apache-2.0
// The ranks of the job: counts, and one cell for each rank.
import { byId, keepChildren, node, setText } from "./dom.js";
import { count, plural } from "./words.js";

const kLarge = 64;  // cells with numbers up to here

export class Membership {
  constructor() {
    this.grid = byId("membership-grid");
    this.chosen = -1;
    this.ranks = [];
    this.grid.addEventListener("pointerover", (event) => this.choose(this.indexOf(event.target)));
    this.grid.addEventListener("click", (event) => this.choose(this.indexOf(event.target)));
    this.grid.addEventListener("keydown", (event) => this.key(event));
    this.grid.addEventListener("focus", () => this.choose(Math.max(0, this.chosen)));
  }

  fresh() {
    this.ranks = [];
    this.chosen = -1;
    this.show();
    setText(byId("membership-counts"), "");
  }

  job(job) {
    this.ranks = job.ranks;
    const words = [`generation ${count(job.generation)}`, plural(job.ranks.length, "rank"), `${count(job.lost)} lost`, `${count(job.joined)} joined`,
                   plural(job.spares, "spare")];
    if (!job.elastic) words[0] = "not elastic";
    setText(byId("membership-counts"), words.join(" · "));
    this.show();
  }

  show() {
    this.grid.classList.toggle("small", this.ranks.length > kLarge);
    keepChildren(this.grid, this.ranks, ({ rank }) => rank, ({ rank }) => {
      const cell = node("span", "cell");
      cell.id = `rank-${rank}`;
      cell.setAttribute("role", "option");
      return cell;
    }, (cell, { rank, name, state }) => {
      cell.dataset.state = state;
      setText(cell, String(rank));
      cell.setAttribute("aria-label", `${name}, ${state}`);
    });
    this.tell();
  }

  indexOf(element) {
    return [...this.grid.children].indexOf(element.closest(".cell"));
  }

  choose(index) {
    if (index < 0 || index >= this.ranks.length) return;
    this.grid.children[this.chosen]?.setAttribute("aria-selected", "false");
    this.chosen = index;
    this.grid.children[index].setAttribute("aria-selected", "true");
    this.grid.setAttribute("aria-activedescendant", this.grid.children[index].id);
    this.tell();
  }

  // Without a chosen rank: the lost ones.
  tell() {
    const lost = this.ranks.filter(({ state }) => state === "lost"), rank = this.ranks[this.chosen] ?? lost.at(-1);
    const ended = this.ranks.every(({ state }) => state === "ended");
    if (!rank) return setText(byId("membership-words"), !this.ranks.length ? "No rank yet." : ended ? "All ranks have ended." : "All ranks are there.");
    const process = rank.process ? `, process ${rank.process}` : "";
    setText(byId("membership-words"), `${rank.name} on ${rank.host}${process}: ${rank.words || rank.state}`);
  }

  key(event) {
    const columns = [...this.grid.children].filter((cell) => cell.offsetTop === this.grid.firstElementChild.offsetTop).length;
    const way = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -this.chosen, End: this.ranks.length - 1 - this.chosen }[event.key];
    if (way === undefined) return;
    event.preventDefault();
    this.choose(this.chosen + way);
  }
}
