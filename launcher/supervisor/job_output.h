// SPDX-License-Identifier: Apache-2.0
// The output of a job, from the messages of agents to ruedarun's own streams.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "launcher/cli/options.h"
#include "launcher/job/placement.h"
#include "launcher/supervisor/rank_output.h"

namespace rueda {

// Purpose: writes both streams of all ranks line by line, as one text if both go to the same file. If the
// reader is slow, ranks have to pause. If it reads nothing for seconds, their lines are dropped and counted,
// so that the job goes on. Owned by the main thread of the supervisor.
class JobOutput {
 public:
  static constexpr std::size_t kStreams = 2;  // standard output, standard error

  // Throws UsageError where --output-filename cannot be written. `options` outlives this.
  // `terminal`: rank 0 has one. Its bytes are shown as they are, without a label.
  JobOutput(const LaunchOptions& options, const std::vector<HostRanks>& hosts, bool terminal = false);

  // A rank starts later than the others.
  void add_rank(int rank, const std::string& host);
  void add(const agents::Output& output);
  void show_rank_0_by_line() { terminal_ = false; }  // it has got no terminal
  void say(std::string_view line);                   // ruedarun's own words
  void use(LineEnd line_end);                        // for lines from now on
  void show_due(LineMixer::Time now);
  std::optional<LineMixer::Time> next_time() const;  // show_due() has something to do then
  void flush();
  // Readable after something has been written.
  int descriptor() const { return news_->number(); }
  // True while ranks have to pause. A reader that takes nothing for `timeout` is waited for no more.
  bool is_full(LineMixer::Time now, std::chrono::milliseconds timeout);
  std::error_code lost();       // why standard output has taken no more
  std::error_code lost_copy();  // why a file of --output-filename has not
  void finish();                // no more comes
  bool all_written();

 private:
  const LaunchOptions& options_;
  WriterNews news_ = make_writer_news();
  std::set<int> shown_;                               // ranks; empty: all
  bool terminal_;                                     // of rank 0
  std::shared_ptr<std::vector<std::string>> labels_;  // by rank
  std::array<RankOutput, kStreams> outputs_;
  struct Dropped {
    bool dropping = false;
    std::uint64_t lines = 0;
  };
  bool is_full(std::size_t stream, LineMixer::Time now, std::chrono::milliseconds timeout);

  std::array<Dropped, kStreams> dropped_;
};

}  // namespace rueda
