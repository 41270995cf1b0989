// SPDX-License-Identifier: Apache-2.0
// The output of ranks, line by line.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "launcher/supervisor/line_mixer.h"
#include "launcher/supervisor/output_writer.h"
#include "launcher/system/descriptor.h"

namespace rueda {

// The text before each line of a rank; none: lines stay as they are.
using Label = std::function<std::string(int rank)>;

// Purpose: writes the output of ranks on one of their streams to one file, mixed by LineMixer; also keeps a
// copy of it, byte for byte, in a file for each rank. Owned by the main thread.
class RankOutput {
 public:
  // Writes to `descriptor`, which stays open. `ranks`: those of the start; others may follow.
  RankOutput(int descriptor, int ranks, Label label, WriterNews news);
  // For the other stream of these ranks, where it goes to the same file (a terminal).
  RankOutput beside() const;
  // With a folder, a copy goes to FOLDER/rank.N/NAME for each rank. Throws UsageError.
  void keep_copies(const std::string& folder, const std::string& name);
  // A rank that starts later gets its file. Throws UsageError.
  void keep_copies_of(int rank);

  void copy(int rank, std::string_view text);  // to the rank's file
  void show(int rank, std::string_view text);
  void show_as_it_is(int rank, std::string_view text);  // of a terminal
  void add_line(std::string_view line);                 // ruedarun's own words
  void use(LineEnd line_end);                           // no effect where it writes to no terminal
  void show_due(LineMixer::Time now) { mixer_->show_due(now); }
  std::optional<LineMixer::Time> next_time() const { return mixer_->next_time(); }
  void flush();   // hands whole lines to the writer
  void finish();  // and all that is left
  OutputWriter& writer() { return *writer_; }
  OutputWriter& copies() { return *copy_writer_; }

 private:
  RankOutput(int descriptor, int ranks, int stream, std::shared_ptr<OutputWriter> writer,
             std::shared_ptr<OutputWriter> copy_writer, std::shared_ptr<LineMixer> mixer);
  int source_of(int rank) const;  // for the mixer

  // The path of copies: FOLDER/rank.N/NAME, N with so many digits.
  struct Files {
    std::string folder;
    std::string name;
    std::size_t digits = 1;
  };

  int descriptor_;
  int ranks_;
  int stream_;  // 0 or 1, of those that the mixer mixes
  std::shared_ptr<OutputWriter> writer_;
  std::shared_ptr<OutputWriter> copy_writer_;
  std::shared_ptr<LineMixer> mixer_;
  Files files_;
  std::vector<Descriptor> copies_;  // by rank, or empty
};

}  // namespace rueda
