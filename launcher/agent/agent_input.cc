// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/agent_input.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace rueda {

Descriptor AgentInput::open() {
  Pipe pipe = make_pipe();
  pipe_ = std::move(pipe.write_end);
  set_non_blocking(pipe_.number());
  return std::move(pipe.read_end);
}

void AgentInput::add(std::string_view text) {
  ended_ |= text.empty();
  waiting_ += text;
}

// A rank that has closed its input takes everything, and reads nothing.
std::uint32_t AgentInput::write() {
  std::size_t written = 0;
  while (pipe_ && written < waiting_.size()) {
    const ssize_t count = ::write(pipe_.number(), waiting_.data() + written, waiting_.size() - written);
    if (count > 0) {
      written += static_cast<std::size_t>(count);
    } else if (errno == EPIPE) {
      pipe_.close();
    } else if (errno != EINTR) {
      break;
    }
  }
  if (!pipe_) written = waiting_.size();
  waiting_.erase(0, written);
  if (ended_ && waiting_.empty()) pipe_.close();
  return static_cast<std::uint32_t>(written);
}

}  // namespace rueda
