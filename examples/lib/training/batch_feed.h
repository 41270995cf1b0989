// SPDX-License-Identifier: Apache-2.0
// The batches of this rank, made ahead while the model computes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "examples/lib/data/batches.h"
#include "examples/lib/data/prefetcher.h"
#include "examples/lib/training/options/options.h"
#include "examples/lib/training/task.h"

namespace rueda::examples {

// The position of this rank in the sequence of samples.
struct FeedPosition {
  std::uint64_t samples = 0;  // that have been read before the first step
  std::int64_t first_step = 0;
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
  // Whether batches are to be copied to a device: they are then in pinned memory.
  bool for_device = false;
};

// Purpose: gives the batches in the order of steps and passes. A step reads the next ranks x passes x batch
// samples of the sequence, for any value of these numbers. So a training that goes on with other numbers
// reads on from its position. Batches are weighed by their share of the step's counts, if the task counts.
// Owner: the training thread; worker threads call the task's make_batch(). Lives for one training.
class BatchFeed {
 public:
  BatchFeed(const Task& task, const TrainOptions& options, const FeedPosition& position);

  // The batch of the next pass. Throws the errors of make_batch().
  TaskBatch next();
  // Seconds that next() has waited so far.
  double wait_seconds() const { return wait_seconds_; }

 private:
  TaskBatch make(std::uint64_t number) const;
  // Of the batch that `rank` reads as its `number`-th.
  std::vector<Sample> samples_of(std::uint64_t number, std::uint64_t rank) const;
  std::vector<double> weights_of(std::uint64_t number, std::span<const Sample> mine) const;

  const Task& task_;
  const FeedPosition position_;
  const std::uint64_t batch_;
  const std::uint64_t passes_;
  const bool together_;  // whether the ranks' gradients are added up
  const TrainingOrder order_;
  double wait_seconds_ = 0;
  Prefetcher<TaskBatch> prefetcher_;  // the last: its threads use the others
};

// Purpose: keeps the first batches of rank 0 and writes them into a safetensors file, for a loop elsewhere
// that is to be fed with the same. Used by the training thread of rank 0.
class BatchDump {
 public:
  static constexpr std::int64_t kSteps = 20;

  explicit BatchDump(std::filesystem::path file) : file_(std::move(file)) {}
  // The file is written at the first batch behind the 20th step.
  void add(std::int64_t step, std::int64_t pass, const TaskBatch& batch);
  // Writes all that there is, unless it has been written. Throws std::runtime_error naming the file.
  void write();

 private:
  std::filesystem::path file_;
  bool written_ = false;
  std::vector<std::pair<std::string, at::Tensor>> tensors_;
};

}  // namespace rueda::examples
