// SPDX-License-Identifier: Apache-2.0
// Counts the Plans of a rank by the way that they move.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/control/autotune/autotuner.h"
#include "core/observe/training/training_record.h"

namespace rueda {

// A Plan whose Work is done. The view of the backend's name outlives the counter.
struct EndedPlan {
  PlanRoute route;
  std::string_view backend;
  Operation operation = Operation::allreduce;
  DataType dtype = DataType::float32;
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;  // of this rank's tensors
  std::int64_t nanoseconds = 0;
  std::int64_t predicted = 0;  // 0: there is no model
};

// Purpose: the Plans of one Runtime, in the TrainingPage of its process. It gives its Routes back at its end,
// and a later Runtime goes on with them. Owned by the Observer; the background thread alone calls it.
class RouteCounter {
 public:
  RouteCounter() = default;
  RouteCounter(const RouteCounter&) = delete;
  RouteCounter& operator=(const RouteCounter&) = delete;
  ~RouteCounter();

  // Before that it counts nothing. The record outlives this. Returns true if this is the first living Runtime
  // of its process.
  bool begin(TrainingRecord& record, const TuningParameters& parameters);
  // About 10 ns; more for the first Plan of a kind.
  void count(const EndedPlan& plan);
  void heard(const TunerNews& news);

 private:
  struct Key {
    std::uint64_t values = 0;
    const char* backend = nullptr;  // texts that live for ever have one address each
    const char* inside = nullptr;
    const char* between = nullptr;
    bool operator==(const Key&) const = default;
  };
  struct Known {
    Key key;
    TrainingPage::Route* route = nullptr;  // null: the page has no room
  };
  static Key key_of(const EndedPlan& plan, std::uint8_t size_class);
  static std::size_t slot_of(const Key& key);
  TrainingPage::Route* find(const Key& key, const EndedPlan& plan, std::uint8_t size_class);

  TrainingRecord* record_ = nullptr;
  PlanSettings settings_;
  std::array<Known, 64> recent_;  // by slot_of()
  std::vector<Known> known_;
};

}  // namespace rueda
