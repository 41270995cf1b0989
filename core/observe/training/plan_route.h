// SPDX-License-Identifier: Apache-2.0
// How Plans move, as a TrainingPage counts them.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "rueda/types.h"

namespace rueda {

// How one Work has moved its data. A plain value; its texts live for ever.
struct PlanRoute {
  std::string_view inside;   // in the memory of a host or a device: "in place"; empty: no such part
  std::string_view between;  // by messages between ranks: "ring"; empty: none
  Compression sent_as = Compression::none;  // of these messages
  bool ends_on_device = false;              // the Work ends before its device does
};

// Plans that move alike. A plain value.
struct RouteKind {
  Operation operation = Operation::allreduce;  // as which it was carried out
  DataType dtype = DataType::float32;
  Compression sent_as = Compression::none;
  bool ends_on_device = false;
  std::uint8_t size_class = 0;  // at most 2^size_class bytes, and more than half of that
  std::string backend;
  std::string inside;
  std::string between;
  auto operator<=>(const RouteKind&) const = default;
};

// So many of them, and for how long. A plain value; times are of Works, in nanoseconds.
struct RouteCount {
  std::uint64_t plans = 0;
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;  // of this rank's tensors
  std::uint64_t nanoseconds = 0;
  std::uint64_t fastest = 0;
  std::uint64_t predicted_plans = 0;  // those for which the core has a cost model
  std::uint64_t predicted = 0;        // of these
  bool operator==(const RouteCount&) const = default;
};

// The values by which rank 0 decides. A plain value.
struct PlanSettings {
  std::uint64_t fusion_threshold = 0;  // bytes; 0: this process has begun no job
  std::uint64_t linger = 0;            // nanoseconds
  std::uint64_t chunk_bytes = 0;
  std::uint64_t route_bytes = 0;    // larger Plans take the second backend
  bool is_tuned = false;            // a tuner looks for better ones, at rank 0
  std::uint64_t tuner_samples = 0;  // that it has measured
  std::string tuner_words;          // its last verdict; empty: none
  bool operator==(const PlanSettings&) const = default;
};

}  // namespace rueda
