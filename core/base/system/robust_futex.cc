// SPDX-License-Identifier: Apache-2.0
#include "core/base/system/robust_futex.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

namespace rueda {
namespace {

constexpr std::size_t kPage = 4096;
// Older headers of the C library do not have them.
constexpr long kSysFutexWaitv = 449;
constexpr std::uint32_t kFutex32 = 2;
struct Awaited {
  std::uint64_t value;
  std::uint64_t address;
  std::uint32_t flags;
  std::uint32_t reserved;
};

}  // namespace

void RobustFutex::hold() {
  thread_local robust_list_head head;
  node_.next = &head.list;
  head.list.next = &node_;
  head.futex_offset =
      static_cast<long>(offsetof(RobustFutex, word_)) - static_cast<long>(offsetof(RobustFutex, node_));
  head.list_op_pending = nullptr;
  word_.store(static_cast<std::uint32_t>(::syscall(SYS_gettid)) | FUTEX_WAITERS);
  ::syscall(SYS_set_robust_list, &head, sizeof head);
  wake_all_on(word_);
}

bool RobustFutex::await_change(std::span<FutexWord* const> words, std::span<const std::uint32_t> values) {
  std::array<Awaited, kMostAwaited> awaited{};
  for (std::size_t i = 0; i < words.size(); ++i)
    awaited[i] = {values[i], reinterpret_cast<std::uint64_t>(words[i]), kFutex32, 0};
  const long woken = ::syscall(kSysFutexWaitv, awaited.data(), static_cast<unsigned>(words.size()), 0U,
                               nullptr, CLOCK_MONOTONIC);
  return woken >= 0 || errno == EAGAIN || errno == EINTR;
}

SharedRobustFutex::SharedRobustFutex()
    : file_(static_cast<int>(::syscall(SYS_memfd_create, "rueda-robust-futex", MFD_CLOEXEC))) {
  if (file_ && ::ftruncate(file_.number(), kPage) == 0) map();
}

SharedRobustFutex::SharedRobustFutex(Descriptor file) : file_(std::move(file)) { map(); }

SharedRobustFutex::~SharedRobustFutex() {
  if (futex_ != nullptr) ::munmap(futex_, kPage);
}

void SharedRobustFutex::map() {
  void* page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file_.number(), 0);
  if (page != MAP_FAILED) futex_ = static_cast<RobustFutex*>(page);
}

}  // namespace rueda
