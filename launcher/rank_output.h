// SPDX-License-Identifier: Apache-2.0
// What the ranks print, line by line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/descriptor.h"

namespace rueda {

// Purpose: gathers the pieces that ranks write to one stream into lines, so that lines of different ranks
// never mix, and writes each with its prefix; also keeps a copy in a file for each rank. Nothing is lost: a
// line without an end is written by finish(), one longer than kLongestLine in parts of that size. Owner: the
// main thread.
class RankOutput {
 public:
  static constexpr std::size_t kLongestLine = 1 << 20;

  // Writes to `descriptor`, which stays open. With a folder, a copy goes to FOLDER/rank.N/NAME for each rank.
  RankOutput(int descriptor, int ranks, bool prefix);
  void show_time() { show_time_ = true; }                                // in the prefix
  void keep_copies(const std::string& folder, const std::string& name);  // throws UsageError

  void add(int rank, std::string_view text);
  void add_line(std::string_view line);  // ruedarun's own words
  bool flush();                          // false when the descriptor takes no more
  bool finish();

 private:
  void end_line(int rank, bool complete);

  int descriptor_;
  bool prefix_;
  bool show_time_ = false;
  std::vector<std::string> unfinished_;  // by rank
  std::vector<Descriptor> copies_;       // by rank, or empty
  std::string ready_;
};

}  // namespace rueda
