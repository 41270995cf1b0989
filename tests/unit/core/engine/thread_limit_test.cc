// SPDX-License-Identifier: Apache-2.0
// A process that may have no more threads is told so, and is not ended.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>

#include "core/engine/runtime.h"
#include "rueda/error.h"
#include "tests/support/in_child.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

// The limit does not hold for root. A user that has no other process has one thread: the caller.
void allow_threads(rlim_t most) {
  constexpr uid_t kNobodyElse = 64987;
  if (geteuid() == 0 && setresuid(kNobodyElse, kNobodyElse, kNobodyElse) != 0) _exit(2);
  const rlimit limit{most, most};
  if (setrlimit(RLIMIT_NPROC, &limit) != 0) _exit(3);
}

// Begins and ends a job of one rank where so many threads are allowed. Returns the words of its error.
std::string words_of_start(rlim_t threads) {
  MemoryNetwork network(1);
  RuntimeComponents components = memory_components(network, 0, 1, {});
  components.config.metrics_file = "/dev/null";
  allow_threads(threads);
  try {
    Runtime runtime(std::move(components));
    runtime.shutdown();
  } catch (const BackendError& error) {
    return error.what();
  }
  return {};
}

// Each number that is not enough lets another thread of the job fail: the watchdog, the background thread,
// that of the metrics. Without the last one the job goes on.
TEST(ThreadLimit, AStartThatGetsNoThreadIsAnErrorWithTheRemedyAndNoAbort) {
  EXPECT_FALSE(in_child([] { return words_of_start(1).empty(); }));
  for (rlim_t threads = 1; threads < 8; ++threads) {
    EXPECT_TRUE(in_child([&] {
      const std::string words = words_of_start(threads);
      return words.empty() ||
             (words.starts_with("init: rank 0 cannot start a thread: Resource temporarily unavailable") &&
              words.find("ulimit -u") != std::string::npos);
    })) << threads;
  }
  EXPECT_TRUE(in_child([] { return words_of_start(8).empty(); }));
}

}  // namespace
}  // namespace rueda
