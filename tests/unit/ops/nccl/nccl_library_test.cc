// SPDX-License-Identifier: Apache-2.0
// Which NCCL is loaded, and what is said of one that cannot be used: libraries of the tests' own.
#include "ops/nccl/nccl_library.h"

#include <gmock/gmock.h>

#include <vector>

namespace rueda {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr const char* kRemedy = "; install NCCL 2.14.0 or newer, and put its folder into LD_LIBRARY_PATH";

NcclLibrary load(const std::vector<std::string>& candidates) { return load_nccl(candidates); }

// The library is there, or there are words on why not.
TEST(NcclLibrary, IsLoadedOrSaysWhatIsMissing) {
  const NcclLibrary& library = nccl_library();
  if (library.problem.empty()) {
    EXPECT_GE(library.version, 21400);
    EXPECT_NE(library.functions.recv, nullptr);
  } else {
    EXPECT_THAT(library.problem, HasSubstr("libnccl.so.2"));
  }
  EXPECT_THAT(nccl_report(), HasSubstr("(library"));
}

TEST(NcclLibrary, TheFirstThatThereIsIsTaken) {
  const NcclLibrary nccl = load({"/nowhere/libnccl.so.2", "libm.so.6", TINY_NCCL_WHOLE, TINY_NCCL_OLD});
  EXPECT_EQ(nccl.problem, "");
  EXPECT_EQ(nccl.version, 21400);
  EXPECT_EQ(nccl.path, TINY_NCCL_WHOLE);
  EXPECT_NE(nccl.functions.recv, nullptr);
  EXPECT_FALSE(nccl.functions.has_windows()) << "it is older than these";
  EXPECT_EQ(nccl.functions.mem_alloc, nullptr);
}

TEST(NcclLibrary, OneThatIsTooOldIsNamedWithItsVersion) {
  const NcclLibrary nccl = load({TINY_NCCL_OLD, TINY_NCCL_WHOLE});
  EXPECT_EQ(nccl.problem, TINY_NCCL_OLD + std::string(" is of version 2.13.4") + kRemedy);
}

TEST(NcclLibrary, OneThatLacksAFunctionIsNamedWithIt) {
  const NcclLibrary nccl = load({TINY_NCCL_PART});
  EXPECT_EQ(nccl.problem,
            TINY_NCCL_PART + std::string(" is of version 2.28.9 and lacks ncclAllGather") + kRemedy);
}

TEST(NcclLibrary, WhatIsNoNcclIsSaidToBeNone) {
  const NcclLibrary nccl = load({"libm.so.6"});
  EXPECT_THAT(nccl.problem, AllOf(HasSubstr("libm.so.6 is of version unknown and lacks ncclGetVersion"),
                                  EndsWith(kRemedy)));
}

TEST(NcclLibrary, WithoutAnyTheLoadersWordsOnEachAreKept) {
  const NcclLibrary nccl = load({"/nowhere/libnccl.so.2", "/neither/libnccl.so.2"});
  const std::string none = ": cannot open shared object file: No such file or directory";
  EXPECT_EQ(nccl.problem, "/nowhere/libnccl.so.2" + none + "; /neither/libnccl.so.2" + none + kRemedy);
  EXPECT_EQ(nccl.functions.get_version, nullptr);
}

}  // namespace
}  // namespace rueda
