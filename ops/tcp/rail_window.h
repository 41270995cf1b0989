// SPDX-License-Identifier: Apache-2.0
// How much a rail may hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/base/time.h"

namespace rueda {

// Purpose: lets a rail hold, in its socket and on its way, the bytes that it carries in a few milliseconds.
// More would wait in the queues of a slow card or switch while other rails could take it. Later data would
// wait behind it. The rate is that of the other side's acknowledgements while there is always something to
// acknowledge. A rail that runs dry while it might not take more is allowed more from then on. Such a rail
// has become faster, or its feeder comes too seldom. Part of a rail; knows no socket.
class RailWindow {
 public:
  // One of so many rails to a peer. Nobody else takes what an only one leaves: it holds more, for the times
  // when whoever feeds it has no core.
  explicit RailWindow(std::size_t rails) : hold_(rails == 1 ? 0.016 : 0.004) {}

  // The state of a socket, as the kernel reports it.
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
  void pass() { busy_since_.reset(); }

 private:
  void measure(const Sight& sight, std::uint64_t arrived, Time now);

  double hold_;                 // seconds, usually
  double rate_ = 0;             // bytes a second
  std::optional<double> most_;  // bytes that the rail may hold; any, before its rate is known
  bool refused_ = false;        // at the last look
  Time looked_{};
  std::optional<Time> busy_since_;  // something was on its way at all looks from then on
  std::uint64_t arrived_ = 0;       // at that time
};

}  // namespace rueda
