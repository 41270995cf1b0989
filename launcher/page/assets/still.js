// SPDX-License-Identifier: Apache-2.0
// Ranks that stand still, and what each one does. Hidden while all move.
import { byId, keepChildren, node, setText } from "./dom.js";
import { plural } from "./words.js";

const kMost = 8;

export class Still {
  fresh() {
    this.update({ operations: [] });
  }

  update({ operations }) {
    if (!operations) return;
    byId("still").hidden = operations.length === 0;
    setText(byId("still-more"), operations.length > kMost ? `and ${plural(operations.length - kMost, "more rank")}` : "");
    keepChildren(byId("still-list"), operations.slice(0, kMost), ({ rank }) => rank, () => {
      const made = node("li");
      made.append(node("strong"), ": ", node("span"));
      return made;
    }, (made, { name, activity }) => {
      setText(made.children[0], name);
      setText(made.children[1], activity);
    });
  }
}
