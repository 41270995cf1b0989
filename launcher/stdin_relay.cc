// SPDX-License-Identifier: Apache-2.0
#include "launcher/stdin_relay.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace rueda {

StdinRelay::StdinRelay(Descriptor to) : to_(std::move(to)) { set_non_blocking(to_.number()); }

pollfd StdinRelay::wanted() const {
  if (!to_) return {-1, 0, 0};
  if (pending_.empty()) return {STDIN_FILENO, POLLIN, 0};
  return {to_.number(), POLLOUT, 0};
}

void StdinRelay::move() {
  if (pending_.empty()) {
    pending_ = read_some(STDIN_FILENO);
    if (pending_.empty() && errno != EAGAIN && errno != EINTR) to_.close();
    return;
  }
  ssize_t written = ::write(to_.number(), pending_.data(), pending_.size());
  if (written > 0) pending_.erase(0, static_cast<std::size_t>(written));
  if (written < 0 && errno != EAGAIN && errno != EINTR) to_.close();
}

}  // namespace rueda
