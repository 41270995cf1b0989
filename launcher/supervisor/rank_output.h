// SPDX-License-Identifier: Apache-2.0
// What the ranks print, line by line.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "launcher/supervisor/line_mixer.h"
#include "launcher/system/descriptor.h"

namespace rueda {

// Purpose: writes what ranks print on one of their streams to one file, mixed by LineMixer; also keeps a copy
// of it, byte for byte, in a file for each rank. Nothing is lost: finish() writes what has no end. Owner: the
// main thread.
class RankOutput {
 public:
  // Writes to `descriptor`, which stays open. A prefix has the rank, the time, both, or there is none.
  RankOutput(int descriptor, int ranks, bool rank_in_prefix, bool time_in_prefix = false);
  // For the other stream of these ranks, where it goes to the same file (a terminal).
  RankOutput beside() const;
  // With a folder, a copy goes to FOLDER/rank.N/NAME for each rank. Throws UsageError.
  void keep_copies(const std::string& folder, const std::string& name);

  void add(int rank, std::string_view text);
  void add_line(std::string_view line);  // ruedarun's own words
  void show_due(LineMixer::Time now) { mixer_->show_due(now); }
  std::optional<LineMixer::Time> next_time() const { return mixer_->next_time(); }
  std::error_code flush();  // an error when the descriptor takes no more
  std::error_code finish();

 private:
  RankOutput(int descriptor, int ranks, int first_source, std::shared_ptr<LineMixer> mixer);

  int descriptor_;
  int ranks_;
  int first_source_;  // of the mixer: rank 0 on this stream
  std::shared_ptr<LineMixer> mixer_;
  std::vector<Descriptor> copies_;  // by rank, or empty
};

}  // namespace rueda
