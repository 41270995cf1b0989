// SPDX-License-Identifier: Apache-2.0
// Memory of another process is mapped if it cannot vanish.
#include "launcher/system/sealed_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "core/base/system/sealed_file.h"

namespace rueda {
namespace {

Descriptor file_in_memory(off_t size, int seals) {
  Descriptor file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(file.number(), size), 0);
  EXPECT_EQ(::fcntl(file.number(), F_ADD_SEALS, seals), 0);
  return file;
}

TEST(SealedMemory, MapsAFileOfThatLengthAndNothingElse) {
  constexpr off_t kSize = 8192;
  EXPECT_TRUE(SealedMemory::map(sealed_file("test", kSize), kSize));
  EXPECT_TRUE(SealedMemory::map(file_in_memory(kSize, F_SEAL_SHRINK), kSize));
  EXPECT_FALSE(SealedMemory::map(file_in_memory(kSize, F_SEAL_GROW), kSize)) << "it could be cut off";
  EXPECT_FALSE(SealedMemory::map(file_in_memory(kSize - 1, F_SEAL_SHRINK), kSize));
  EXPECT_FALSE(SealedMemory::map(file_in_memory(kSize + 1, F_SEAL_SHRINK), kSize));
  EXPECT_FALSE(SealedMemory::map(Descriptor(::open("/dev/zero", O_RDONLY | O_CLOEXEC)), kSize));
  EXPECT_FALSE(SealedMemory::map(Descriptor(), kSize));
  std::string name = "/tmp/rueda_test_XXXXXX";
  const Descriptor file(::mkstemp(name.data()));
  EXPECT_EQ(::ftruncate(file.number(), kSize), 0);
  EXPECT_FALSE(SealedMemory::map(file, kSize)) << "a file of a disk has no seals";
  ::unlink(name.c_str());
}

TEST(SealedMemory, ShowsAndTakesWords) {
  const Descriptor file = sealed_file("test", 4096);
  std::optional<SealedMemory> writes = SealedMemory::map(file, 4096, SealedMemory::Access::write);
  std::optional<SealedMemory> reads = SealedMemory::map(file, 4096);
  ASSERT_TRUE(writes && reads);
  std::memcpy(writes->data(), "words", 6);
  const SealedMemory moved = std::move(*reads);
  EXPECT_STREQ(reinterpret_cast<const char*>(moved.bytes().data()), "words");
}

}  // namespace
}  // namespace rueda
