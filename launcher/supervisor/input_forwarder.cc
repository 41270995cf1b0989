// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/input_forwarder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "launcher/system/descriptor.h"

namespace rueda {

int InputForwarder::descriptor() const {
  if (!reading_ || ahead_ >= kAhead) return -1;
  const bool in_background = ::isatty(STDIN_FILENO) == 1 && ::tcgetpgrp(STDIN_FILENO) != ::getpgrp();
  return in_background ? -1 : STDIN_FILENO;
}

std::optional<agents::Input> InputForwarder::read() {
  std::string text(read_some(STDIN_FILENO));
  if (text.empty() && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (text.empty()) reading_ = false;
  ahead_ += text.size();
  return agents::Input{std::move(text)};
}

void InputForwarder::note_taken(std::uint32_t bytes) { ahead_ -= std::min<std::size_t>(ahead_, bytes); }

}  // namespace rueda
