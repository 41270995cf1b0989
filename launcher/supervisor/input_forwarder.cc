// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/input_forwarder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "launcher/system/descriptor.h"
#include "launcher/system/user_terminal.h"

namespace rueda {

namespace {

bool makes_signal(char key) { return key == '\x03' || key == '\x1a' || key == '\x1c'; }

}  // namespace

void InputForwarder::begin(bool keys) {
  reading_ = true;
  keys_ = keys && ::isatty(STDIN_FILENO) == 1;
}

int InputForwarder::descriptor() const {
  if (!reading_ || (ahead_ >= kAhead && !keys_)) return -1;
  const bool in_background = ::isatty(STDIN_FILENO) == 1 && !is_terminal_of_ours(STDIN_FILENO);
  return in_background ? -1 : STDIN_FILENO;
}

std::optional<agents::Input> InputForwarder::read() {
  std::string text(read_some(STDIN_FILENO));
  if (text.empty() && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (text.empty()) reading_ = false;
  if (!text.empty() && ahead_ >= kAhead) std::erase_if(text, [](char key) { return !makes_signal(key); });
  if (text.empty() && reading_) return std::nullopt;
  ahead_ += text.size();
  return agents::Input{std::move(text)};
}

void InputForwarder::note_taken(std::uint32_t bytes) { ahead_ -= std::min<std::size_t>(ahead_, bytes); }

}  // namespace rueda
