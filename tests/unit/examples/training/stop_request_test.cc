// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/stop_request.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace rueda::examples {
namespace {

namespace fs = std::filesystem;

TEST(StopRequest, HearsOfASignalAndOfAFile) {
  const fs::path file = fs::temp_directory_path() / ("rueda_stop_" + std::to_string(::getpid()));
  std::ofstream{file}.close();
  {
    StopRequest stop(file);
    EXPECT_FALSE(fs::exists(file)) << "of a run before";
    EXPECT_EQ(stop.seen(), Stop::none);
    std::ofstream{file}.close();
    EXPECT_EQ(stop.seen(), Stop::finish);
    EXPECT_FALSE(fs::exists(file));
    EXPECT_EQ(stop.seen(), Stop::finish) << "for good";
    std::raise(SIGTERM);
    EXPECT_EQ(stop.seen(), Stop::interrupt);
  }
  EXPECT_EQ(StopRequest(file).seen(), Stop::none);
  struct sigaction now {};
  sigaction(SIGTERM, nullptr, &now);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
}

}  // namespace
}  // namespace rueda::examples
