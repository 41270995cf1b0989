// SPDX-License-Identifier: Apache-2.0
#include "launcher/system/epoll_set.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace rueda {

EpollSet::EpollSet() : poll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!poll_) throw std::system_error(errno, std::generic_category(), "cannot wait for descriptors");
}

void EpollSet::add(int descriptor, std::uint64_t key) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = key}};
  if (::epoll_ctl(poll_.number(), EPOLL_CTL_ADD, descriptor, &event) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot wait for a descriptor");
}

std::vector<std::uint64_t> EpollSet::ready() const {
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(poll_.number(), events.data(), static_cast<int>(events.size()), 0);
  std::vector<std::uint64_t> keys;
  for (int i = 0; i < count; ++i) keys.push_back(events[static_cast<std::size_t>(i)].data.u64);
  return keys;
}

}  // namespace rueda
