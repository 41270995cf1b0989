// SPDX-License-Identifier: Apache-2.0
// An agent's answer to RequestKind::recordings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"
#include "core/observe/recorder_page.h"

namespace rueda {

// The recording of one Runtime of a rank. A plain value.
struct RecordedRuntime {
  std::string name;         // empty: of the job of init()
  std::vector<Rank> ranks;  // of the job, which take part, in their order; empty: all
  Recording recording;
};

// The recordings of one rank. A plain value.
struct RankRecording {
  std::int64_t monotonic_ns = 0;  // of the rank's host, when they were read
  std::int64_t unix_ns = 0;       // the same moment
  std::int32_t left_out = 0;      // so many more have found no room
  std::vector<RecordedRuntime> runtimes;
};

// Purpose: makes an answer of bounded length. A plain value.
class RankRecordingsWriter {
 public:
  explicit RankRecordingsWriter(std::int64_t monotonic_ns) : monotonic_ns_(monotonic_ns) {}

  // `ranks`: "0-3,9", or "-".
  void add(const std::string& ranks, const std::string& name, ConstBytes page);
  std::string take();

 private:
  std::int64_t monotonic_ns_;
  Writer pages_;
  std::size_t bytes_ = 0;
  std::uint32_t count_ = 0;
  std::int32_t left_out_ = 0;
};

// Nothing where the bytes are no such answer. They may be anything.
std::optional<RankRecording> read_rank_recordings(std::string_view bytes);

// The ranks of "0-3,9"; nothing where the text has more than `most`, or means none.
std::optional<std::vector<Rank>> ranks_of_runs(std::string_view text, std::size_t most);

}  // namespace rueda
