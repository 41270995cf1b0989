// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/batch_feed.h"

#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "examples/lib/training/tensor_file.h"
#include "rueda/training.h"

namespace rueda::examples {
namespace {

// Enough for every worker to have one in hand and one behind it.
std::size_t depth_for(std::int64_t workers) {
  return static_cast<std::size_t>(std::max<std::int64_t>(1, 2 * workers));
}

}  // namespace

BatchFeed::BatchFeed(const Task& task, const TrainOptions& options, const FeedPosition& position)
    : task_(task),
      position_(position),
      batch_(static_cast<std::uint64_t>(options.batch)),
      passes_(static_cast<std::uint64_t>(options.backward_passes_per_step)),
      together_(options.synchronize()),
      order_(task.samples(), options.seed, 1, 1, 1),
      prefetcher_([this](std::uint64_t number) { return make(number); },
                  static_cast<std::size_t>(options.workers), depth_for(options.workers), 0,
                  static_cast<std::uint64_t>(std::max<std::int64_t>(0, options.steps - position.first_step) *
                                             options.backward_passes_per_step)) {}

TaskBatch BatchFeed::next() {
  const PhaseScope loading(Phase::data);
  const auto begin = std::chrono::steady_clock::now();
  TaskBatch batch = prefetcher_.next();
  wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return batch;
}

std::vector<Sample> BatchFeed::samples_of(std::uint64_t number, std::uint64_t rank) const {
  const auto ranks = static_cast<std::uint64_t>(position_.ranks);
  const std::uint64_t first = position_.samples + (number * ranks + rank) * batch_;
  std::vector<Sample> chosen;
  for (std::uint64_t position = first; position < first + batch_; ++position)
    chosen.push_back({order_.batch(position, 0, 0).front(), position});
  return chosen;
}

// A mean over this batch times its weight, averaged over all batches of the step, is the mean over the step.
std::vector<double> BatchFeed::weights_of(std::uint64_t number, std::span<const Sample> mine) const {
  std::vector<double> weights = task_.counts(mine);
  if (weights.empty()) return weights;
  const auto rank = static_cast<std::uint64_t>(position_.rank);
  const std::uint64_t first_rank = together_ ? 0 : rank;
  const std::uint64_t last_rank = together_ ? static_cast<std::uint64_t>(position_.ranks) - 1 : rank;
  const std::uint64_t first = number / passes_ * passes_;
  std::vector<double> whole(weights.size(), 0);
  for (std::uint64_t pass = first; pass < first + passes_; ++pass) {
    for (std::uint64_t each = first_rank; each <= last_rank; ++each) {
      const bool is_mine = pass == number && each == rank;
      std::ranges::transform(whole, is_mine ? weights : task_.counts(samples_of(pass, each)), whole.begin(),
                             std::plus());
    }
  }
  const auto batches = static_cast<double>(passes_ * (last_rank - first_rank + 1));
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = whole[i] > 0 ? weights[i] * batches / whole[i] : 1.0;
  return weights;
}

TaskBatch BatchFeed::make(std::uint64_t number) const {
  const std::vector<Sample> chosen = samples_of(number, static_cast<std::uint64_t>(position_.rank));
  TaskBatch batch = task_.make_batch(chosen);
  batch.weights = weights_of(number, chosen);
  if (position_.for_device) {
    for (auto& [name, tensor] : batch.tensors) tensor = tensor.pin_memory();
  }
  return batch;
}

void BatchDump::add(std::int64_t step, std::int64_t pass, const TaskBatch& batch) {
  if (step >= kSteps) return write();
  for (const auto& [name, tensor] : batch.tensors)
    tensors_.emplace_back(fmt::format("{}.{}.{}", step, pass, name), tensor);
  if (batch.weights.empty()) return;
  const auto double_precision = at::TensorOptions().dtype(at::kDouble);
  tensors_.emplace_back(fmt::format("{}.{}.weights", step, pass),
                        at::tensor(batch.weights, double_precision));
}

void BatchDump::write() {
  if (written_ || file_.empty() || tensors_.empty()) return;
  write_tensors(file_, tensors_);
  written_ = true;
  tensors_.clear();
}

}  // namespace rueda::examples
