// SPDX-License-Identifier: Apache-2.0
// The dumps of a running job, and their occasions.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "launcher/dump/dump_writer.h"
#include "launcher/protocol/agent_message.h"
#include "launcher/protocol/rank_requests.h"

namespace rueda {

// Purpose: collects the recordings of all ranks when a rank is lost, when ranks wait for others in vain, or
// when somebody asks. A thread writes them. One dump at a time; who asks meanwhile gets the next one. Owned
// by the main thread of the supervisor; lives as long as the job.
class JobDumps {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Done = std::function<void(const WrittenDump&)>;

  struct Surroundings {
    std::function<void(const agents::Message&)> tell;  // all agents
    std::function<DumpFacts()> facts;                  // without an occasion
    std::function<void(const std::string&)> say;       // a line for the user
  };

  // `folder`: for all dumps; empty: there are only those that somebody asks for, in the working folder.
  JobDumps(std::string folder, Surroundings surroundings);
  ~JobDumps();
  JobDumps(const JobDumps&) = delete;
  JobDumps& operator=(const JobDumps&) = delete;

  void note_started(int rank, int host) { hosts_[rank] = host; }
  void note_gone(int host) {  // its agent
    for (auto& [rank, its] : hosts_) its = its == host ? -1 : its;
  }
  void hear(int host, const agents::AnswerPart& part) { requests_.hear(host, part); }

  // "ranks wait for others". Nothing happens without a folder, or soon after another occasion.
  void on_occasion(const std::string& reason, Time now);
  // `done` is called by act() or finish().
  void ask(Done done, Time now);

  // Due at next_time(), and after hear().
  void act(Time now);
  std::optional<Time> next_time() const;
  std::vector<int> ranks() const;  // that have started
  // The job is over: no more answers come. Waits for the files.
  void finish();

 private:
  // A dump from its occasion on.
  struct Dump {
    std::string reason{};
    std::vector<Done> done{};
  };

  void begin(Time now);
  void write(std::map<int, std::string> answers);
  void conclude();

  const std::string folder_;
  const Surroundings surroundings_;
  std::map<int, int> hosts_;  // of ranks; -1: it is gone
  RankRequests requests_;
  std::uint32_t request_ = 0;  // 0: none
  std::optional<Dump> now_;    // whose answers come, or which is being written
  std::optional<Dump> next_;   // for occasions and questions since
  std::optional<Time> last_;   // the last occasion
  int occasions_ = 0;          // of this job
  std::thread writer_;
  std::atomic<bool> is_written_{false};
  std::optional<WrittenDump> written_;  // of the thread until then
};

}  // namespace rueda
