// SPDX-License-Identifier: Apache-2.0
// ruedarun's standard input, on its way to a rank 0 on another host, or on a terminal of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "launcher/protocol/agent_message.h"

namespace rueda {

// Purpose: reads standard input, no more ahead than the rank takes. Owned by the main thread of the
// supervisor.
class InputForwarder {
 public:
  // `keys`: they come from a terminal in raw mode. So they are read also where the rank takes none, and those
  // that make no signal are lost then.
  void begin(bool keys);
  void end() { reading_ = false; }  // what has not been read is for others
  // The descriptor to poll; -1 while nothing may be read. If ruedarun is in the background of its terminal,
  // reading would stop it.
  int descriptor() const;
  // The next piece; nothing when there is none now.
  std::optional<agents::Input> read();
  void note_taken(std::uint32_t bytes);

 private:
  static constexpr std::size_t kAhead = 256 << 10;  // bytes

  bool reading_ = false;
  bool keys_ = false;
  std::size_t ahead_ = 0;  // bytes that rank 0 has not taken yet
};

}  // namespace rueda
