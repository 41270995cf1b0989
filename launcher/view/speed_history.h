// SPDX-License-Identifier: Apache-2.0
// The speed of a job from its start on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

namespace rueda {

// Purpose: curves of samples/s and of the time of a step, for programs that log none. Keeps at most 1024
// points, of each 2nd, 4th, 8th step that came. Pure. Used by one thread.
class SpeedHistory {
 public:
  // Of one step the last call counts.
  void add(std::uint64_t step, double samples_per_s, double step_ms);
  // {"samples/s": [[step, value]...], "ms a step": ...}; a curve without values is left out.
  nlohmann::json as_json() const;

 private:
  struct SpeedPoint {
    std::uint64_t step = 0;
    double samples_per_s = 0;
    double step_ms = 0;
  };

  std::vector<SpeedPoint> points_;
  std::optional<std::uint64_t> last_step_;
  std::size_t added_ = 0;  // steps
  std::size_t stride_ = 1;
};

}  // namespace rueda
