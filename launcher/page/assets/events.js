// SPDX-License-Identifier: Apache-2.0
// Events of the job, the latest first.
import { byId, node } from "./dom.js";
import { clockTime, isDate } from "./words.js";

const kMost = 200;

export class Events {
  fresh() {
    byId("events-list").replaceChildren();
    byId("events-empty").hidden = false;
  }

  update({ events = [] }) {
    const list = byId("events-list");
    for (const event of events) {
      const row = node("li"), time = node("time", "", clockTime(event.at));
      if (isDate(event.at)) time.dateTime = new Date(event.at * 1000).toISOString();
      row.dataset.kind = event.kind;
      row.append(time, node("span", "kind", event.kind), node("span", "", event.text));
      list.prepend(row);
      byId("events-empty").hidden = true;
    }
    while (list.children.length > kMost) list.lastElementChild.remove();
  }
}
