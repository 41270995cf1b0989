// SPDX-License-Identifier: Apache-2.0
// Tells ruedarun of the ranks and the machine of this host, while somebody watches the job.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "launcher/agent/host_load.h"
#include "launcher/agent/rank_answers.h"
#include "launcher/agent/rank_observer.h"
#include "launcher/agent/supervisor_line.h"
#include "launcher/dump/rank_recordings.h"
#include "launcher/protocol/observation.h"
#include "launcher/stacks/python_stacks.h"
#include "launcher/system/descriptor.h"
#include "launcher/system/gpu_watch.h"

namespace rueda {

// Purpose: the rhythm of Observed and HostLoad, and the answers of ranks. It tells nothing unless it is
// asked, and less where ruedarun takes it slowly: output of ranks comes first. Owned by the agent's thread.
class HostObserver {
 public:
  using Clock = std::chrono::steady_clock;

  void add_rank(int rank) { ranks_.try_emplace(rank, Rank{RankObserver(rank)}); }
  // A rank has sent the memory of its training. Anything else is dropped.
  void take_page(int rank, const Descriptor& file);
  // The same for its TimelineRequestPage.
  void take_requests(int rank, const Descriptor& file);
  // The same for a RecorderPage; see RankRecordings.
  void take_recorder(int rank, Descriptor file, std::uint64_t offset, const std::string& identity) {
    recordings_.take(rank, std::move(file), offset, identity);
  }
  void note_process(int rank, pid_t process);
  // The process whose stacks a request means; 0: none. `python`: null where it does not run Python.
  void note_main_process(int rank, pid_t process, std::shared_ptr<PythonStacks> python);
  // It has ended: the last news of it, if somebody watches. What has no room now follows.
  void note_end(int rank, SupervisorLine& supervisor);
  // See RankObserver. Of a rank that it does not know: none.
  TrainingFailure recent_failure(int rank) const;

  void obey(const agents::Watch& order);
  // The job is over: only the last news of ranks are still told.
  void end();
  bool is_telling() const { return due_.has_value(); }
  // Every rank of this host answers, also one that has ended.
  void ask(const agents::Request& request);
  // Due at next_time(), and when descriptor() is readable: then an answer is there.
  void act(Clock::time_point now, SupervisorLine& supervisor);
  std::optional<Clock::time_point> next_time() const;
  int descriptor() const { return answers_.descriptor(); }
  bool has_answers() { return answers_.has_any(); }  // that have not left

 private:
  struct Rank {
    RankObserver observer;
    std::optional<SealedMemory> requests{};
    pid_t process = 0;
    pid_t main_process = 0;
    std::shared_ptr<PythonStacks> python{};
    bool needs_last_look = false;
  };

  RankAnswers::Make answer_to(const agents::Request& request, int number, Rank& rank);
  static std::string ask_for_timeline(Rank& rank, const std::string& text);
  static bool tell_of(Rank& rank, SupervisorLine& supervisor);
  void tell_news(Clock::time_point now, SupervisorLine& supervisor);
  void tell_load(Clock::time_point now, SupervisorLine& supervisor);

  std::map<int, Rank> ranks_;
  RankAnswers answers_;
  RankRecordings recordings_;
  HostLoadReader load_;
  GpuWatch gpus_;
  std::optional<Clock::time_point> load_at_;  // when it was told last, to whoever watches now
  std::chrono::milliseconds interval_{0};
  std::optional<Clock::time_point> due_;      // none: nobody watches
  std::optional<Clock::time_point> look_at_;  // the next time that there may be news; none: at no time
};

}  // namespace rueda
