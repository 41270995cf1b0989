// SPDX-License-Identifier: Apache-2.0
// Wishes of those who watch the job: a timeline of some steps, a dump, and a good end.
import { byId, setText } from "./dom.js";
import { count } from "./words.js";

const kSteps = 20;
const kLongest = 90000;  // ms; ruedarun answers within 80 s

// The answer of ruedarun as an object. Throws an Error with words for people.
export async function post(address) {
  let answer;
  try {
    const target = new URL(address, location.href);
    target.searchParams.set("token", new URLSearchParams(location.search).get("token") ?? "");
    answer = await fetch(target, { method: "POST", signal: AbortSignal.timeout(kLongest) });
  } catch {
    throw new Error("ruedarun does not answer");
  }
  if (!answer.ok) throw new Error((await answer.text()).trim());
  const told = await answer.json();
  if (told.error) throw new Error(told.error);
  return told;
}

export class Actions {
  constructor() {
    byId("timeline-now").addEventListener("click", () => this.make("timeline-now", `timeline?steps=${kSteps}`, ({ file, first_step, last_step, refusals }) =>
      `Steps ${count(first_step)} to ${count(last_step)} go to ${file}.${refusals.length ? ` Without ${refusals.join("; ")}.` : ""}`));
    byId("dump-now").addEventListener("click", () => this.make("dump-now", "dump", ({ folder, summary }) => `${folder}\n\n${summary}`));
    const dialog = byId("stop-dialog");
    byId("stop-now").addEventListener("click", () => dialog.showModal());
    byId("stop-not").addEventListener("click", () => dialog.close());
    byId("stop-really").addEventListener("click", () => {
      dialog.close();
      this.make("stop-now", "stop", () => "The ranks have been asked to save and to stop.");
    });
  }

  async make(button, address, words) {
    byId(button).disabled = true;
    setText(byId("actions-words"), "…");
    try {
      setText(byId("actions-words"), words(await post(address)));
    } catch (error) {
      setText(byId("actions-words"), error.message);
    }
    byId(button).disabled = this.ended === true;
  }

  end() {
    this.ended = true;
    for (const button of ["timeline-now", "dump-now", "stop-now"]) byId(button).disabled = true;
  }
}
