// SPDX-License-Identifier: Apache-2.0
// Averages of integers whose sums do not fit their type.
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "tests/support/conformance/conformance.h"
#include "tests/support/sanitized.h"

namespace rueda {
namespace {

__extension__ typedef __int128 Wide;

// What rank `rank` puts into element i: near the largest and the smallest value of T, near zero, or anything.
template <class T>
T own_number(Rank rank, std::int64_t i) {
  using Limits = std::numeric_limits<T>;
  std::uint64_t mixed = (static_cast<std::uint64_t>(rank) << 40) + static_cast<std::uint64_t>(i);
  for (int round = 0; round < 2; ++round) {
    mixed = (mixed ^ mixed >> 31) * 0x9e3779b97f4a7c15u;
    mixed ^= mixed >> 29;
  }
  const auto few = static_cast<T>(mixed % 4);
  switch (i % 4) {
    case 0: return static_cast<T>(Limits::max() - few);
    case 1: return static_cast<T>(Limits::min() + few);
    case 2: return static_cast<T>(few - 2);
    default: return static_cast<T>(mixed >> 8);
  }
}

template <class T>
T saturated(double value) {
  using Limits = std::numeric_limits<T>;
  if (value >= static_cast<double>(Limits::max())) return Limits::max();
  if (value <= static_cast<double>(Limits::min())) return Limits::min();
  return static_cast<T>(value);
}

template <class T>
T expected_average(Rank ranks, std::int64_t i, const Reduction& how) {
  Wide sum = 0;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const T value = own_number<T>(rank, i);
    sum +=
        how.prescale_factor == 1.0 ? value : saturated<T>(static_cast<double>(value) * how.prescale_factor);
  }
  if (how.postscale_factor == 1.0) return static_cast<T>(sum / ranks);
  return saturated<T>(static_cast<double>(sum) * how.postscale_factor / ranks);
}

enum class Layout { apart, in_place, strided, window };

struct Case {
  std::int64_t rows;
  Layout layout = Layout::in_place;
  Reduction how{};
};

// Purpose: one such operation, of rows of 3 elements, from its submission to its check.
template <class T>
class Average {
 public:
  static constexpr std::int64_t kRow = 3;

  Average(Runtime& runtime, Operation operation, const Case& what)
      : runtime_(runtime),
        operation_(operation),
        case_(what),
        step_(what.layout == Layout::strided ? 2 : 1),
        words_(fmt::format("average of {} rows of {}, {}, layout {}, x {} x {}, {}", what.rows,
                           to_string(data_type_of<T>), to_string(operation), static_cast<int>(what.layout),
                           what.how.prescale_factor, what.how.postscale_factor, to_string(what.how.order))) {
    const auto elements = static_cast<std::size_t>(what.rows * kRow * step_);
    memory_ = std::shared_ptr<T[]>(new T[elements]);
    output_ = memory_;
    if (what.layout == Layout::apart) output_ = std::shared_ptr<T[]>(new T[elements]);
    if (what.layout == Layout::window && elements > 0) {
      const std::shared_ptr<std::byte> window = runtime.allocate(elements * sizeof(T));
      output_ = memory_ = std::shared_ptr<T[]>(window, reinterpret_cast<T*>(window.get()));
    }
    for (std::int64_t i = 0; i < what.rows * kRow; ++i)
      memory_[i * step_] = own_number<T>(runtime.topology().rank, i);
  }

  Handle submit() {
    if (operation_ == Operation::reducescatter)
      return reducescatter_async(words_, view(memory_.get()), case_.how, runtime_);
    return allreduce_async(words_, view(memory_.get()), view(output_.get()), case_.how, runtime_);
  }

  void check(const Handle& handle) const {
    const Rank ranks = runtime_.topology().size, own = runtime_.topology().rank;
    const T* values = output_.get();
    std::int64_t begin = 0, rows = case_.rows, step = step_;
    if (operation_ == Operation::reducescatter) {
      values = static_cast<const T*>(handle.output().data);
      begin = rows / ranks * own + std::min<std::int64_t>(own, rows % ranks);
      rows = rows / ranks + (own < rows % ranks ? 1 : 0);
      step = 1;
    }
    for (std::int64_t i = 0; i < rows * kRow; ++i) {
      const T expected = expected_average<T>(ranks, begin * kRow + i, case_.how), got = values[i * step];
      if (got == expected) continue;
      throw std::runtime_error(fmt::format("{}: element {}: expected {}, got {}", words_, i,
                                           static_cast<std::int64_t>(expected),
                                           static_cast<std::int64_t>(got)));
    }
  }

 private:
  TensorView view(T* values) const {
    TensorView view{values, data_type_of<T>, {case_.rows, kRow}, {}};
    if (step_ > 1) view.strides = {kRow * step_, step_};
    return view;
  }

  Runtime& runtime_;
  Operation operation_;
  Case case_;
  std::int64_t step_;
  std::string words_;
  std::shared_ptr<T[]> memory_;
  std::shared_ptr<T[]> output_;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int64_t rows : {0, 1, 40, 333, 6'007})
    all.push_back({rows, rows % 2 == 0 ? Layout::in_place : Layout::apart});
  for (const Layout layout : {Layout::strided, Layout::window}) {
    for (const std::int64_t rows : {2, 50, sanitized(151, 4'001)}) all.push_back({rows, layout});
  }
  for (const auto& [before, after] : {std::pair{0.5, 1.0}, std::pair{1.0, 2.5}, std::pair{3.0, 0.4}})
    all.push_back({101, Layout::apart, {.prescale_factor = before, .postscale_factor = after}});
  for (const std::int64_t rows : {7, sanitized(99, 1'999)})
    all.push_back({rows, Layout::in_place, {.order = ReductionOrder::fixed}});
  return all;
}

// One at a time, so that each is a Plan of its own; then together, so that some are fused.
template <class T>
void check_averages_of(Runtime& runtime, Operation operation) {
  std::vector<Average<T>> together;
  for (const Case& each : cases()) {
    Average<T> alone(runtime, operation, each);
    const Handle handle = alone.submit();
    handle.wait();
    alone.check(handle);
    together.emplace_back(runtime, operation, each);
  }
  std::vector<Handle> handles;
  for (Average<T>& each : together) handles.push_back(each.submit());
  for (const Handle& handle : handles)
    static_cast<void>(handle.wait_status());  // before a failure frees tensors
  for (std::size_t i = 0; i < handles.size(); ++i) {
    handles[i].wait();
    together[i].check(handles[i]);
  }
}

}  // namespace

void check_averages_of_integers(Runtime& runtime, Operation operation) {
  check_averages_of<std::uint8_t>(runtime, operation);
  check_averages_of<std::int8_t>(runtime, operation);
  check_averages_of<std::int16_t>(runtime, operation);
  check_averages_of<std::int32_t>(runtime, operation);
  check_averages_of<std::int64_t>(runtime, operation);
}

}  // namespace rueda
