// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/stop_request.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>

namespace rueda::examples {
namespace {

namespace fs = std::filesystem;

TEST(StopRequest, HearsOfASignalAndOfAFile) {
  const fs::path file = fs::temp_directory_path() / ("rueda_stop_" + std::to_string(::getpid()));
  std::ofstream{file}.close();
  StopRequest::forget(file);
  EXPECT_FALSE(fs::exists(file)) << "of a run before";
  {
    StopRequest stop(file);
    EXPECT_EQ(stop.seen(), Stop::none);
    std::ofstream{file}.close();
    EXPECT_EQ(stop.seen(), Stop::finish);
    EXPECT_FALSE(fs::exists(file));
    EXPECT_EQ(stop.seen(), Stop::finish) << "for good";
  }
  {
    StopRequest next(file);
    EXPECT_EQ(next.seen(), Stop::none) << "a file ends one training";
  }
  std::raise(SIGTERM);  // between two, or after the results
  StopRequest last(file);
  EXPECT_EQ(last.seen(), Stop::interrupt);
}

}  // namespace
}  // namespace rueda::examples
