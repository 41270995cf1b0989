// SPDX-License-Identifier: Apache-2.0
#include "ops/sockets/poll_set.h"

#include <algorithm>
#include <chrono>
#include <ctime>

namespace rueda {

void PollSet::add(int descriptor, bool write) {
  files_.push_back({descriptor, static_cast<short>(POLLIN | (write ? POLLOUT : 0)), 0});
}

void PollSet::sleep(Duration longest) {
  constexpr std::chrono::nanoseconds::rep kSecond = 1'000'000'000;
  const auto count = std::max<std::chrono::nanoseconds::rep>(std::chrono::nanoseconds(longest).count(), 0);
  const timespec limit{static_cast<time_t>(count / kSecond), static_cast<long>(count % kSecond)};
  ::ppoll(files_.data(), files_.size(), &limit, nullptr);
}

}  // namespace rueda
