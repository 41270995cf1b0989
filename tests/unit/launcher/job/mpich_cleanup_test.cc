// SPDX-License-Identifier: Apache-2.0
// Only files that nobody uses and that came during the job are removed.
#include "launcher/job/mpich_cleanup.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "launcher/system/descriptor.h"

namespace rueda {
namespace {

namespace fs = std::filesystem;

TEST(MpichCleanup, RemovesWhatTheJobLeft) {
  fs::path folder = fs::canonical(::testing::TempDir()) / ("rueda_litter_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  auto make = [&](const char* name) { std::ofstream(folder / name) << "x"; };
  make("mpich_shm_before_0");
  MpichCleanup litter(folder.string());
  make("mpich_shm_after_0");
  make("mpich_shm_open_0");
  make("of_another_program");
  Descriptor open(::open((folder / "mpich_shm_open_0").c_str(), O_RDONLY));
  litter.sweep();
  EXPECT_FALSE(fs::exists(folder / "mpich_shm_after_0"));
  EXPECT_TRUE(fs::exists(folder / "mpich_shm_before_0"));
  EXPECT_TRUE(fs::exists(folder / "mpich_shm_open_0"));
  EXPECT_TRUE(fs::exists(folder / "of_another_program"));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace rueda
