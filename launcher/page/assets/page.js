// SPDX-License-Identifier: Apache-2.0
// The live page of a job: passes the events of the feed to the sections.
import { Actions } from "./actions.js";
import { Curves } from "./curves.js";
import { Events } from "./events.js";
import { Feed } from "./feed.js";
import { Headline } from "./headline.js";
import { Hosts } from "./hosts.js";
import { Late } from "./late.js";
import { Membership } from "./membership.js";
import { Stacks } from "./stacks.js";
import { Still } from "./still.js";
import { TaskStream } from "./task_stream.js";

const kEndDelay = 1000;  // the last updates come after the end, too

const headline = new Headline();
const sections = [headline, new Actions(), new Still(), new Stacks(), new Curves(), new TaskStream(), new Late(), new Membership(), new Events(), new Hosts()];

const failed = new Set();

// A section that fails leaves the others alone. The console has its first error.
function tell(name, ...words) {
  for (const section of sections) {
    try {
      section[name]?.(...words);
    } catch (error) {
      if (!failed.has(section)) console.error(error);
      failed.add(section);
    }
  }
}

let ending = false;

const feed = new Feed("events", {
  fresh: () => tell("fresh"),
  job: (job) => tell("job", job),
  connection: (state) => tell("connection", state),
  update(update) {
    tell("update", update);
    if (ending || !headline.hasEnded()) return;
    ending = true;
    setTimeout(() => {
      feed.end();
      tell("end");
    }, kEndDelay);
  },
});
