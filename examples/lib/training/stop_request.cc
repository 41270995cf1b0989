// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/stop_request.h"

#include <atomic>
#include <csignal>
#include <system_error>
#include <utility>

namespace rueda::examples {
namespace {

// A handler may do no more than this.
std::atomic<bool> terminated{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void note_signal(int) { terminated = true; }

}  // namespace

StopRequest::StopRequest(std::filesystem::path file) : file_(std::move(file)) {
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;  // nothing that reads or waits needs to know
  sigaction(SIGTERM, &action, nullptr);
}

void StopRequest::forget(const std::filesystem::path& file) {
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
}

Stop StopRequest::seen() {
  if (terminated) return Stop::interrupt;
  std::error_code ignored;
  if (!file_seen_) file_seen_ = std::filesystem::remove(file_, ignored);
  return file_seen_ ? Stop::finish : Stop::none;
}

}  // namespace rueda::examples
