// SPDX-License-Identifier: Apache-2.0
// How much a rail may hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/base/time.h"

namespace rueda {

// Purpose: lets a rail hold, in its socket and on its way, what it carries in a few milliseconds. More would
// wait in the queues of a slow card or switch while other rails could take it, and all that is sent later
// would wait behind it. The rate is what the other side acknowledges while there is always something to
// acknowledge. Part of a rail; knows no socket.
class RailPace {
 public:
  // What a socket tells.
  struct Sight {
    std::size_t held = 0;  // bytes that it has taken and the other side has not acknowledged
    Duration trip{};       // the shortest so far, there and back
  };
  static Sight look_at(int socket);

  static constexpr std::size_t kShort = 16 << 10;  // bytes that may go without a look

  // The largest fragment that the rail may take now; 0: it holds enough. `written` are the bytes that it has
  // been given in all.
  std::size_t room(const Sight& sight, std::uint64_t written, Time now);
  // Something goes without a look: whether the rail was idle before is not known.
  void pass() { idle_ = true; }

 private:
  void measure(const Sight& sight, std::uint64_t arrived, Time now);

  std::optional<double> rate_;  // bytes a second, once known
  std::uint64_t arrived_ = 0;   // at since_; something was on its way ever since
  Time since_{};
  bool idle_ = true;
};

}  // namespace rueda
