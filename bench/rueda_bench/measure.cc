// SPDX-License-Identifier: Apache-2.0
#include "bench/rueda_bench/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <utility>

#include "bench/rueda_bench/subjects/subject.h"
#include "bench/rueda_bench/workload/awake.h"
#include "core/base/error.h"
#include "rueda/rueda.h"

namespace rueda::bench {
namespace {

// As the recorder and the timeline count it.
std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// Times of one rank, by step. `aligned` ones are by the clock of rank 0.
struct Times {
  std::vector<std::int64_t> step;
  std::vector<std::int64_t> reference;
  std::vector<std::int64_t> aligned_last_call;
  std::vector<std::int64_t> aligned_submission;
  std::vector<std::int64_t> aligned_plan;
};

template <class T>
void take_largest_of_all_ranks(std::vector<T>& values) {
  if (values.empty()) return;
  allreduce_async("bench.largest", view(values), view(values), {ReduceOp::max}).wait();
}

// Purpose: the tensors of one workload, and their operations. They stay while any operation runs.
class Steps {
 public:
  Steps(const Workload& workload, const Allocate& allocate, Times& times) : times_(times) {
    for (const NamedTensor& each : workload.tensors) {
      names_.push_back(each.name);
      memory_.push_back(allocate(static_cast<std::size_t>(each.elements) * sizeof(float)));
      tensors_.push_back({memory_.back().get(), DataType::float32, {each.elements}, {}});
    }
    handles_.reserve(tensors_.size());
  }

  void run(bool measured) {
    for (const TensorView& tensor : tensors_) write(tensor);
    const Scope all, scope = tensors_.size() == 1 ? all.awaited() : all;
    StartLine::await(agreed_start(start_));
    std::int64_t last_call = 0;
    const std::int64_t begin = now_ns();
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (i + 1 == tensors_.size()) last_call = now_ns();
      handles_.push_back(allreduce_async(names_[i], tensors_[i], tensors_[i], {ReduceOp::sum}, scope));
    }
    Status status;
    for (const Handle& handle : handles_) {
      Status ended = handle.wait_status();
      if (status.ok()) status = std::move(ended);
    }
    const std::int64_t end = now_ns();
    handles_.clear();
    throw_if_error(status);
    const MetricsSnapshot metrics = rueda::metrics();
    for (std::size_t i = 0; i < tensors_.size(); ++i) check(i);
    if (!measured) return;
    times_.step.push_back(end - begin);
    times_.aligned_last_call.push_back(last_call + metrics.clock_offset_ns);
    times_.aligned_submission.push_back(metrics.last_submission_ns + metrics.clock_offset_ns);
    times_.aligned_plan.push_back(metrics.last_plan_ns + metrics.clock_offset_ns);
  }

 private:
  // Small whole numbers, which differ by rank and element: sums are exact, and show what went astray.
  static float value(std::int64_t element, int of_rank) {
    return static_cast<float>(static_cast<int>(element & 7) + of_rank);
  }

  static void write(const TensorView& tensor) {
    auto* values = static_cast<float*>(tensor.data);
    const Rank own = rank();
    for (std::int64_t i = 0; i < tensor.elements(); ++i) values[i] = value(i, own);
  }

  void check(std::size_t number) const {
    const TensorView& tensor = tensors_[number];
    const auto* values = static_cast<const float*>(tensor.data);
    const auto ranks = static_cast<float>(size()), of_ranks = ranks * (ranks - 1) / 2;
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < tensor.elements(); ++i) wrong += values[i] != ranks * value(i, 0) + of_ranks;
    if (wrong != 0) {
      throw std::runtime_error(fmt::format("rank {}: the sum of '{}' is wrong in {} of {} elements", rank(),
                                           names_[number], wrong, tensor.elements()));
    }
  }

  Times& times_;
  const StartLine start_{local_size() == size(), size()};
  std::vector<std::string> names_;
  std::vector<std::shared_ptr<std::byte>> memory_;
  std::vector<TensorView> tensors_;
  std::vector<Handle> handles_;
};

std::vector<double> microseconds(const std::vector<std::int64_t>& nanoseconds) {
  std::vector<double> result;
  for (std::int64_t value : nanoseconds) result.push_back(static_cast<double>(value) * 1e-3);
  return result;
}

std::vector<double> microseconds_between(const std::vector<std::int64_t>& begin,
                                         const std::vector<std::int64_t>& end) {
  std::vector<double> result;
  for (std::size_t i = 0; i < begin.size(); ++i)
    result.push_back(static_cast<double>(end[i] - begin[i]) * 1e-3);
  return result;
}

}  // namespace

Measured measure(const Experiment& experiment, const Allocate& allocate, Reference* reference) {
  const Workload& workload = *experiment.workload;
  Times times;
  Steps steps(workload, allocate, times);
  std::uint64_t plans_before = 0;
  std::optional<CollectiveBuffers> theirs;
  if (reference != nullptr) {
    const auto bytes = static_cast<std::size_t>(workload.bytes());
    theirs.emplace(Collective{Operation::allreduce, DataType::float32, bytes}, rank(), size(),
                   [&](std::size_t size_of_all) { return reference->allocate(size_of_all); });
  }
  for (int step = -experiment.warmup; step < experiment.steps; ++step) {
    if (step == 0) plans_before = metrics().plans;
    steps.run(step >= 0);
    if (!theirs) continue;
    theirs->fill();
    rest_awake();
    const double seconds = reference->seconds(*theirs);
    if (step >= 0) times.reference.push_back(static_cast<std::int64_t>(seconds * 1e9));
  }
  const std::uint64_t plans = metrics().plans - plans_before;
  for (auto* series : {&times.step, &times.reference, &times.aligned_last_call, &times.aligned_submission,
                       &times.aligned_plan}) {
    take_largest_of_all_ranks(*series);
  }
  Measured result;
  result.step = microseconds(times.step);
  result.negotiation = microseconds_between(times.aligned_submission, times.aligned_plan);
  result.call_to_plan = microseconds_between(times.aligned_last_call, times.aligned_plan);
  result.reference = microseconds(times.reference);
  result.plans = static_cast<double>(plans) / experiment.steps - 2;  // agreeing on the start has two
  return result;
}

}  // namespace rueda::bench
