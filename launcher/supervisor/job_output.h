// SPDX-License-Identifier: Apache-2.0
// What the job writes, from the pipes of mpiexec to ruedarun's own streams.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "launcher/cli/options.h"
#include "launcher/supervisor/output_demux.h"
#include "launcher/supervisor/rank_output.h"
#include "launcher/system/descriptor.h"

namespace rueda {

// Purpose: both streams of mpiexec, taken apart by rank and written line by line; as one text where both
// go to the same file. Owner: the main thread of
// the supervisor; lives as long as the job.
class JobOutput {
 public:
  static constexpr std::size_t kStreams = 2;  // standard output, standard error

  explicit JobOutput(const LaunchOptions& options);

  const std::string& label() const { return label_; }  // what Hydra puts before each piece
  std::array<Descriptor, kStreams> open();             // makes the pipes; returns the ends to write to

  int descriptor(std::size_t stream) const { return pipes_[stream].number(); }
  bool read(std::size_t stream);  // false when nothing was there
  void flush();
  void say(std::string_view line);                   // ruedarun's own words
  void show_due(LineMixer::Time now);                // lines without an end that have waited long enough
  std::optional<LineMixer::Time> next_time() const;  // show_due() has something to do then
  std::error_code lost() const { return lost_; }     // why standard output has taken no more, the first time
  const std::string& mpiexec_said() const { return mpiexec_said_; }
  void read_rest();  // mpiexec has ended, and what it wrote is in the pipes
  void finish();

 private:
  const std::string token_;
  const std::string label_;
  std::array<RankOutput, kStreams> outputs_;
  std::array<OutputDemux, kStreams> streams_;
  std::array<Descriptor, kStreams> pipes_;
  std::error_code lost_;
  std::string mpiexec_said_;  // on its standard output, held back: shown when nobody else tells what happened
};

}  // namespace rueda
