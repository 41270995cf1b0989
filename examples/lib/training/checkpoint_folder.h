// SPDX-License-Identifier: Apache-2.0
// The folders of checkpoints: written whole or not at all, read only when every byte is as it was written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/lib/reporting/run_report.h"

namespace rueda::examples {

// A checkpoint with other bytes than those written; what() names the file.
class DamagedCheckpoint : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline constexpr int kCheckpointFormat = 3;  // of checkpoints that are written
inline constexpr int kFormatOfArchives = 2;  // the optimizer's state is an archive of torch::save

// The facts in a checkpoint's training.json, beside size and CRC-32 of all its files.
struct CheckpointFacts {
  int format = kCheckpointFormat;
  std::int64_t step = 0;                     // how many have been done
  std::uint64_t samples = 0;                 // that have been read
  std::int64_t ranks = 1;                    // that have
  std::vector<std::string> settings;         // must be the same to go on
  std::vector<EvaluationPoint> evaluations;  // so far
};

// Purpose: one checkpoint while it is written: a hidden folder beside its final path, to be filled by the
// caller, and renamed when all of it is on the disk. Whoever is killed meanwhile leaves the checkpoints
// before it as they were; the next writer clears up. Used by one thread of one rank.
class CheckpointWriter {
 public:
  // For ROOT/step-N. Throws std::runtime_error naming the folder that cannot be made.
  CheckpointWriter(std::filesystem::path root, std::int64_t step);
  // Removes the files if they were not committed.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  // Then removes all but the newest `keep` checkpoints. Returns the folder's final path. Throws
  // std::runtime_error naming a file that cannot be written; nothing is removed then.
  std::filesystem::path commit(const CheckpointFacts& facts, std::int64_t keep);

 private:
  std::filesystem::path root_;
  std::filesystem::path target_;
  std::filesystem::path folder_;
};

// ROOT/step-N, whole or not, the highest step first; none where there is no such folder. Throws
// std::runtime_error naming one that cannot be read.
std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& root);

// Whether a folder is a checkpoint, whole or not: by its name or its training.json.
bool is_checkpoint(const std::filesystem::path& folder);

// Reads every file of a checkpoint. Throws DamagedCheckpoint naming a missing or changed file, and
// std::runtime_error for a checkpoint of another format.
CheckpointFacts check_checkpoint(const std::filesystem::path& folder);

}  // namespace rueda::examples
