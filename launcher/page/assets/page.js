// SPDX-License-Identifier: Apache-2.0
// The live page of a job: passes the events of the feed to the sections. As a file it shows a job that has ended, or compares runs.
import { Actions } from "./actions.js";
import { Comparison } from "./comparison.js";
import { Curves } from "./curves.js";
import { Events } from "./events.js";
import { Feed } from "./feed.js";
import { Headline } from "./headline.js";
import { Hosts } from "./hosts.js";
import { Late } from "./late.js";
import { Membership } from "./membership.js";
import { Plan } from "./plan.js";
import { Stacks } from "./stacks.js";
import { Still } from "./still.js";
import { stored } from "./stored.js";
import { TaskStream } from "./task_stream.js";

const kEndDelay = 1000;  // the last updates come after the end, too

const file = stored();
const headline = new Headline();
const ofJob = () => [headline, new Still(), new Curves(), new TaskStream(), new Late(), new Membership(), new Events(), new Plan(), new Hosts()];
const ofRunningJob = () => [new Actions(), new Stacks()];  // what asks ruedarun
const sections = file?.kind === "runs" ? [] : file ? ofJob() : [...ofJob(), ...ofRunningJob()];

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

function follow() {
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
}

function show({ job, update }) {
  document.documentElement.dataset.stored = "job";
  tell("fresh");
  tell("job", job);
  tell("update", update);
  tell("end");
}

if (file?.kind === "runs") new Comparison(file.comparison);
else if (file) show(file);
else follow();
