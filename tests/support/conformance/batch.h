// SPDX-License-Identifier: Apache-2.0
// The cases of the conformance suite: types, reductions, tensors, and operations that are in flight together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "core/engine/runtime.h"
#include "rueda/handle.h"
#include "tests/support/conformance/conformance_values.h"
#include "tests/support/conformance/values.h"
#include "tests/support/sanitized.h"

namespace rueda {

inline constexpr DataType kEveryDataType[] = {
    DataType::uint8,   DataType::int8,     DataType::int16,   DataType::int32,   DataType::int64,
    DataType::float16, DataType::bfloat16, DataType::float32, DataType::float64, DataType::boolean};
inline constexpr DataType kFewDataTypes[] = {DataType::uint8, DataType::int64, DataType::bfloat16,
                                             DataType::float32};

inline std::span<const DataType> data_types() {
  if (kThreadSanitized && !in_full("core")) return kFewDataTypes;
  return kEveryDataType;
}

inline constexpr ReduceOp kReduceOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max,
                                          ReduceOp::product};

inline void fill(TestTensor& tensor, Rank rank) {
  for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, own_value(tensor.view().dtype, rank, i));
}

// Purpose: operations that are all in flight together; every rank submits them in an order of its own.
class ConformanceBatch {
 public:
  explicit ConformanceBatch(Runtime& runtime) : runtime_(runtime) {}

  // `submit` starts the operation; `check` looks at its result.
  void add(std::function<Handle()> submit, std::function<void(const Handle&)> check) {
    cases_.push_back({std::move(submit), std::move(check)});
  }

  void run() {
    std::mt19937 random(static_cast<std::uint32_t>(runtime_.topology().rank) * 7919 + 1);
    std::vector<std::size_t> order(cases_.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<Handle> handles(cases_.size());
    for (std::size_t i : order) handles[i] = cases_[i].submit();
    for (const Handle& handle : handles)
      static_cast<void>(handle.wait_status());  // before a failure frees tensors
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      handles[i].wait();
      cases_[i].check(handles[i]);
    }
    cases_.clear();
  }

 private:
  struct Case {
    std::function<Handle()> submit;
    std::function<void(const Handle&)> check;
  };
  Runtime& runtime_;
  std::vector<Case> cases_;
};

}  // namespace rueda
