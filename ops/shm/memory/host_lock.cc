// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/memory/host_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "core/base/log.h"

namespace rueda {
namespace {

constexpr auto kLongestWait = std::chrono::seconds(5);
constexpr auto kLookAgain = std::chrono::milliseconds(1);

}  // namespace

HostLock::HostLock(const char* folder) : folder_(::open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  static std::atomic<bool> waited_in_vain{false};
  if (!folder_) return;
  const auto end = std::chrono::steady_clock::now() + kLongestWait;
  for (;;) {
    held_ = ::flock(folder_.number(), LOCK_EX | LOCK_NB) == 0;
    if (held_) waited_in_vain.store(false);
    if (held_) return;
    if (errno != EWOULDBLOCK && errno != EINTR) return;
    if (waited_in_vain.load() || std::chrono::steady_clock::now() > end) break;
    std::this_thread::sleep_for(kLookAgain);
  }
  if (waited_in_vain.exchange(true)) return;
  log(LogLevel::warning,
      "another process has held the lock of {} for {} s, so ranks may take the same free memory at once; "
      "'lslocks' names that process",
      folder, kLongestWait.count());
}

// Not by closing alone: a child that was forked meanwhile has the folder open too.
HostLock::~HostLock() {
  if (held_) ::flock(folder_.number(), LOCK_UN);
}

}  // namespace rueda
