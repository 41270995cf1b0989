// SPDX-License-Identifier: Apache-2.0
// All that a training needs to go on, to and from checkpoints.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/system/descriptor.h"
#include "examples/lib/data/files/file_failure.h"
#include "examples/lib/reporting/run_report.h"
#include "examples/lib/training/checkpoint_folder.h"
#include "examples/lib/training/options/options.h"
#include "examples/lib/training/step_optimizer.h"
#include "examples/lib/training/task.h"
#include "examples/lib/training/trainer.h"

namespace rueda::examples {

// A checkpoint that was found whole, and its facts; the same on all ranks.
struct FoundCheckpoint {
  std::filesystem::path folder;  // where rank 0 sees it
  int format = kCheckpointFormat;
  std::int64_t ranks = 1;  // that have written it
  TrainingPosition position;
  std::vector<EvaluationPoint> evaluations;
};

// As text, and back. All losses then count as averaged.
std::string bytes_of(const FoundCheckpoint& found);
FoundCheckpoint found_of(const std::string& bytes);

// Purpose: saves and finds the checkpoints of one run. Rank 0 alone reads and writes files; others send it
// their part and get it from there, so that no folder need be shared. Files: the model as --model reads it,
// history.safetensors, and the optimizer's state: optimizer.safetensors of all ranks, or
// optimizer-R.safetensors of each where ranks have states of their own. None of them can run code. Made after
// rueda::init() by the main thread; all calls are collective.
class TrainingState {
 public:
  TrainingState(Task& task, const TrainOptions& options);

  // The checkpoint that --resume asks for; nothing if it is not given, or if OUTPUT has no checkpoint yet.
  // Passes over damaged ones, with a line each in words(). Loads the model on rank 0. Throws, on every rank,
  // for a folder without a checkpoint that is whole, with other files alone, and for one of other settings;
  // when training is to begin anew in a folder with checkpoints of another run; and if another run writes to
  // OUTPUT now.
  std::optional<FoundCheckpoint> resume();
  // For a training that goes on without a checkpoint: makes sure that nobody else writes to OUTPUT.
  void take_over();
  // Loads the optimizer's state of the checkpoint that resume() has found.
  void load_optimizer(const FoundCheckpoint& found, StepOptimizer& optimizer);
  // Returns its path, for rank 0. Throws on every rank when it cannot be written; earlier checkpoints are
  // still there then.
  std::filesystem::path save(const TrainingPosition& position, StepOptimizer& optimizer,
                             const std::vector<EvaluationPoint>& evaluations);

  // For people, of rank 0.
  const std::vector<std::string>& words() const { return words_; }

 private:
  void lock_output(std::chrono::milliseconds timeout);
  std::optional<FoundCheckpoint> find();
  FoundCheckpoint read(const std::filesystem::path& folder, const CheckpointFacts& facts);
  void set_aside_others(const FoundCheckpoint& found);
  std::vector<std::string> settings() const;
  void check_holds_no_code(const std::filesystem::path& folder, const CheckpointFacts& facts) const;
  void check_settings(const std::filesystem::path& folder, const std::vector<std::string>& saved) const;

  Task& task_;
  const TrainOptions& options_;
  Descriptor lock_;  // of rank 0, as long as it may write
  std::vector<std::string> words_;
};

// The checkpoints that --resume, which must be given, may go on from, the highest step first; none if it
// names a folder that is empty or absent. Throws std::runtime_error for a folder with other files, and for a
// path that is no folder.
std::vector<std::filesystem::path> checkpoints_to_resume(const TrainOptions& options);

// Throws std::runtime_error if an earlier run has left checkpoints: a run that begins anew would mix them
// with its own.
void check_nothing_is_in(const std::filesystem::path& checkpoints);

}  // namespace rueda::examples
