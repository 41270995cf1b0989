// SPDX-License-Identifier: Apache-2.0
// libFuzzer: the reader of control messages. What it accepts can be written, read again, and stays the same.
#include <cstdint>
#include <cstdlib>

#include "core/control/messages/control_message.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rueda;
  const std::optional<Message> message = decode({reinterpret_cast<const std::byte*>(data), size});
  if (!message) return 0;
  const Bytes once = encode(*message);
  const std::optional<Message> again = decode(once);
  if (!again || encode(*again) != once) std::abort();
  return 0;
}
