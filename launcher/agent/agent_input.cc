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
  if (text.empty()) return;
  waiting_ += text;
  last_ = text.back();
}

void AgentInput::leave_terminal() {
  if (terminal_ == nullptr) return;
  terminal_.reset();
  skipped_ += std::exchange(waiting_, {}).size();
}

void AgentInput::end() {
  if (std::exchange(ended_, true) || !terminal_) return;
  waiting_ += terminal_->end_of_input(last_);
}

// A rank that has closed its input takes everything, and reads nothing.
std::uint32_t AgentInput::write() {
  std::size_t written = 0;
  while (target() >= 0 && written < waiting_.size()) {
    const ssize_t count = ::write(target(), waiting_.data() + written, waiting_.size() - written);
    if (count > 0) {
      written += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      pipe_.close();
      written = waiting_.size();
    }
  }
  if (target() < 0) written = waiting_.size();
  waiting_.erase(0, written);
  if (ended_ && waiting_.empty()) pipe_.close();
  return static_cast<std::uint32_t>(written + std::exchange(skipped_, 0));
}

}  // namespace rueda
