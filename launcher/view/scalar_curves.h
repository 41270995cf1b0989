// SPDX-License-Identifier: Apache-2.0
// The curves of a job: each tag once, though all ranks may log it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "launcher/protocol/observation.h"

namespace rueda {

// Purpose: keeps the curve of the lowest rank that has a tag. A curve has at most 2048 points: a longer one
// loses every second. Pure; time is passed in. Owned by the main thread of the supervisor.
class ScalarCurves {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Point = agents::Observed::Point;

  void add(int rank, const agents::Observed::Curve& curve, Time now);
  // The rank's curves go on with those of any other rank that comes further.
  void note_end(int rank);

  // {"tag": [[step, value], ...]}: the points since the last call. A tag of another rank than 0 carries the
  // rank, and waits a moment for rank 0's. A tag of rank 0 that looks like one of these carries it, too.
  nlohmann::json take_new(Time now);
  nlohmann::json all() const;
  struct LastValue {
    std::string tag;
    int rank = 0;
    double value = 0;
  };
  // One for each tag.
  std::vector<LastValue> last_values() const;

 private:
  struct Curve {
    int rank = 0;
    bool has_ended = false;  // the rank
    Time since{};
    bool is_shown = false;
    std::uint64_t stride = 1;  // of points that are kept
    std::uint64_t added = 0;
    std::uint64_t last_step = 0;
    std::vector<Point> points;
    std::vector<Point> fresh;
  };
  static std::string name_of(const std::string& tag, const Curve& curve);

  std::map<std::string, Curve> curves_;
};

}  // namespace rueda
