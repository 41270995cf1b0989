// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <thread>

#include "core/rueda.h"
#include "tests/bench/reference.h"

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
  Steps(const Workload& workload, Times& times)
      : times_(times), values_(static_cast<std::size_t>(workload.count * workload.bytes) / sizeof(float)) {
    const auto count = static_cast<std::size_t>(workload.count), each = values_.size() / count;
    for (std::size_t i = 0; i < count; ++i) {
      // As long as names of parameters are.
      names_.push_back(fmt::format("bench.{}.encoder.layer.{}.attention.weight", workload.bytes, i));
      tensors_.push_back(view(std::span(values_).subspan(i * each, each)));
    }
    handles_.reserve(count);
  }

  void run(bool measured) {
    std::ranges::fill(values_, 1.0f);
    barrier_async().wait();
    std::int64_t last_call = 0;
    const std::int64_t begin = now_ns();
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (i + 1 == tensors_.size()) last_call = now_ns();
      handles_.push_back(allreduce_async(names_[i], tensors_[i], tensors_[i], {ReduceOp::sum}));
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
    check();
    if (!measured) return;
    times_.step.push_back(end - begin);
    times_.aligned_last_call.push_back(last_call + metrics.clock_offset_ns);
    times_.aligned_submission.push_back(metrics.last_submission_ns + metrics.clock_offset_ns);
    times_.aligned_plan.push_back(metrics.last_plan_ns + metrics.clock_offset_ns);
  }

 private:
  void check() const {
    const auto wanted = static_cast<float>(size());
    for (const TensorView& tensor : tensors_) {
      const float* first = static_cast<const float*>(tensor.data);
      for (float got : {*first, first[tensor.shape[0] - 1]}) {
        if (got != wanted)
          throw std::runtime_error(fmt::format("rank {}: the sum of {} ones is {}", rank(), size(), got));
      }
    }
  }

  Times& times_;
  std::vector<float> values_;
  std::vector<std::string> names_;
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

Measured measure(const Experiment& experiment, const Workload& workload) {
  Times times;
  Steps steps(workload, times);
  std::uint64_t plans_before = 0;
  std::optional<CollectiveBuffers> reference;
  if (experiment.against_mpi) {
    const auto bytes = static_cast<std::size_t>(workload.count * workload.bytes);
    reference.emplace(Collective{Operation::allreduce, DataType::float32, bytes}, rank(), size());
  }
  for (int step = -experiment.warmup; step < experiment.steps; ++step) {
    if (step == 0) plans_before = metrics().plans;
    steps.run(step >= 0);
    if (!reference) continue;
    reference->fill();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // until no coordinator polls
    const double seconds = reference_seconds(*reference);
    if (step >= 0) times.reference.push_back(static_cast<std::int64_t>(seconds * 1e9));
  }
  const std::uint64_t plans = metrics().plans - plans_before;
  for (auto* series : {&times.step, &times.reference, &times.aligned_last_call, &times.aligned_submission,
                       &times.aligned_plan}) {
    take_largest_of_all_ranks(*series);
  }
  Measured result;
  result.workload = workload;
  result.step = microseconds(times.step);
  result.negotiation = microseconds_between(times.aligned_submission, times.aligned_plan);
  result.call_to_plan = microseconds_between(times.aligned_last_call, times.aligned_plan);
  result.reference = microseconds(times.reference);
  result.plans = static_cast<double>(plans) / experiment.steps - 1;  // the barrier has one
  return result;
}

}  // namespace rueda::bench
