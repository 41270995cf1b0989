// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/batch_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "examples/lib/training/tensor_file.h"

namespace rueda::examples {
namespace {

// Enough for every worker to have one in hand and one behind it.
std::size_t depth_for(std::int64_t workers) {
  return static_cast<std::size_t>(std::max<std::int64_t>(1, 2 * workers));
}

}  // namespace

BatchFeed::BatchFeed(const Task& task, const TrainOptions& options, const FeedPlace& place)
    : task_(task),
      place_(place),
      batch_(static_cast<std::uint64_t>(options.batch)),
      order_(task.samples(), options.seed, 1, 1, 1),
      prefetcher_([this](std::uint64_t number) { return make(number); },
                  static_cast<std::size_t>(options.workers), depth_for(options.workers), 0,
                  static_cast<std::uint64_t>(std::max<std::int64_t>(0, options.steps - place.first_step) *
                                             options.backward_passes_per_step)) {}

TaskBatch BatchFeed::next() {
  const auto begin = std::chrono::steady_clock::now();
  TaskBatch batch = prefetcher_.next();
  wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return batch;
}

TaskBatch BatchFeed::make(std::uint64_t number) const {
  const auto ranks = static_cast<std::uint64_t>(place_.ranks);
  const std::uint64_t first =
      place_.samples + (number * ranks + static_cast<std::uint64_t>(place_.rank)) * batch_;
  std::vector<Sample> chosen;
  for (std::uint64_t position = first; position < first + batch_; ++position)
    chosen.push_back({order_.batch(position, 0, 0).front(), position});
  return task_.make_batch(chosen);
}

void BatchDump::add(std::int64_t step, std::int64_t pass, const TaskBatch& batch) {
  if (step >= kSteps) return write();
  for (const auto& [name, tensor] : batch.tensors)
    tensors_.emplace_back(fmt::format("{}.{}.{}", step, pass, name), tensor);
}

void BatchDump::write() {
  if (written_ || file_.empty() || tensors_.empty()) return;
  write_tensors(file_, tensors_);
  written_ = true;
  tensors_.clear();
}

}  // namespace rueda::examples
