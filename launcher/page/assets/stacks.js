// SPDX-License-Identifier: Apache-2.0
// The stacks of all ranks at a moment: ranks at the same place are one group, the smallest group first.
import { post } from "./actions.js";
import { byId, keepChildren, node, setText } from "./dom.js";
import { clockTime, plural } from "./words.js";

const kMostGroups = 32, kMostNotes = 8;

function title({ name, phase, step }) {
  const where = [phase, step && `step ${step}`].filter(Boolean).join(", ");
  return where ? `${name} (${where})` : name;
}

export class Stacks {
  constructor() {
    byId("stacks-now").addEventListener("click", () => this.ask());
    byId("stacks-save").addEventListener("click", () => this.save());
  }

  async ask() {
    const button = byId("stacks-now");
    button.disabled = true;
    setText(byId("stacks-words"), "The ranks are asked …");
    try {
      const begun = Date.now() / 1000;
      this.show(await post("stacks"), begun);
    } catch (error) {
      setText(byId("stacks-words"), error.message);
    }
    button.disabled = this.ended === true;
  }

  show({ groups, ranks, notes, text }, at) {
    this.text = text;
    this.at = at;
    byId("stacks-save").hidden = false;
    const more = groups.length > kMostGroups ? `; the text has all of them` : "";
    const isRank = ({ rank }) => rank !== undefined, places = groups.filter((group) => group.ranks.length > 0);  // spares have none
    setText(byId("stacks-words"), `${clockTime(at)}: the main threads of ${plural(ranks.filter(isRank).length, "rank")} are at ${plural(places.length, "place")}${more}`);
    keepChildren(byId("stacks-groups"), groups.slice(0, kMostGroups), (group) => groups.indexOf(group), () => {
      const made = node("li"), frames = node("pre");
      frames.tabIndex = 0;
      made.append(node("strong"), frames);
      return made;
    }, (made, group) => {
      setText(made.firstElementChild, title(group));
      setText(made.lastElementChild, group.frames.join("\n") || "no stack");
      made.lastElementChild.setAttribute("aria-label", `stack of ${title(group)}, the innermost function first`);
    });
    const shown = notes.slice(0, kMostNotes);
    if (notes.length > kMostNotes) shown.push(`and ${plural(notes.length - kMostNotes, "more note")} in the text`);
    keepChildren(byId("stacks-notes"), shown, (note) => note, () => node("li"), (made, note) => setText(made, note));
  }

  save() {
    const link = node("a");
    link.href = URL.createObjectURL(new Blob([this.text], { type: "text/plain" }));
    link.download = `stacks-${new Date(this.at * 1000).toISOString().slice(0, 19).replaceAll(":", "")}.txt`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  end() {
    this.ended = true;
    byId("stacks-now").disabled = true;
  }
}
