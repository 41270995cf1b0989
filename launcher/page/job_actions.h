// SPDX-License-Identifier: Apache-2.0
// What those who watch a job may do with it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "launcher/dump/job_dumps.h"
#include "launcher/page/event_feed.h"
#include "launcher/protocol/agent_message.h"
#include "launcher/protocol/rank_requests.h"

namespace rueda {

// Purpose: asks the ranks for what an Inquiry wants, and answers it in JSON. An answer that cannot be had is
// {"error": words}. Owned by the main thread of the supervisor.
class JobActions {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Surroundings {
    std::function<void(const agents::Message&)> tell;                           // all agents
    std::function<void(const std::string& kind, const std::string& text)> say;  // as an event of the job
    std::function<void()> stop;                  // asks the ranks to save and to end
    std::function<nlohmann::json()> ranks;       // "ranks" of JobView::status()
    std::string folder;                          // for files
    std::function<void(JobDumps::Done)> dump{};  // makes one
  };
  explicit JobActions(Surroundings surroundings) : surroundings_(std::move(surroundings)) {}

  void note_started(int rank, int host) { ranks_[rank] = host; }
  void note_ended(int rank) { ended_.insert(rank); }
  void note_step(int rank, std::uint64_t step, Time now);
  void hear(int host, const agents::AnswerPart& part) { requests_.hear(host, part); }

  // Begins what is wanted, and answers what is complete. `knows_steps`: the ranks have been heard.
  void act(EventFeed& feed, const EventFeed::Wanted& wanted, bool knows_steps, Time now);
  bool is_busy() const { return !pending_.empty() || !made_.empty() || awaited_.has_value() || dumps_; }

 private:
  // The steps of a job that is watched.
  struct Steps {
    std::map<int, std::uint64_t> of_ranks;
    std::uint64_t last = 0;     // of them
    Time moved{};               // the last time that it changed
    std::uint64_t counted = 0;  // at `since`
    Time since{};
    double per_second = 0;
  };
  // A timeline that ranks write.
  struct Timeline {
    std::string file;
    std::uint64_t first = 0, last = 0;
    std::optional<Time> over;  // all steps have been seen
  };

  void begin(Inquiry inquiry, EventFeed& feed, Time now);
  void begin_dump(EventFeed& feed);
  void begin_timeline(EventFeed& feed, Time now);
  void request(Inquiry inquiry, agents::RequestKind kind, std::string text, Time now);
  void give_answers(EventFeed& feed, Time now);
  void answer(EventFeed& feed, Inquiry inquiry, RankReplies replies);
  std::string timeline_answer(const RankReplies& replies);
  void look_for_timeline(Time now);

  const Surroundings surroundings_;
  std::map<int, int> ranks_;  // with their hosts
  std::set<int> ended_;
  Steps steps_;
  RankRequests requests_;
  std::map<Inquiry, std::uint32_t> pending_;          // numbers of their requests
  std::map<Inquiry, std::future<std::string>> made_;  // by threads: long answers
  std::optional<Timeline> awaited_;
  bool dumps_ = false;  // somebody waits for a dump
};

}  // namespace rueda
