// SPDX-License-Identifier: Apache-2.0
// librueda_mpi where it is missing, or is something else: one error with the remedy.
#include "ops/mpi/mpi_module.h"

#include <gmock/gmock.h>

#include <string>

#include "ops/mpi/mpi_components.h"
#include "rueda/error.h"

namespace rueda {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string words_for(const std::string& path) {
  try {
    load_mpi_module(path);
  } catch (const BackendError& error) {
    return error.what();
  }
  return "loaded";
}

TEST(MpiModuleTest, MissingLibrary) {
  EXPECT_THAT(
      words_for("/nowhere/librueda_mpi.so"),
      AllOf(HasSubstr("/nowhere/librueda_mpi.so: cannot open shared object file"),
            HasSubstr("-DRUEDA_MPI=ON"), HasSubstr("LD_LIBRARY_PATH"), HasSubstr("RUEDA_STORE=HOST:PORT")));
}

TEST(MpiModuleTest, AnotherLibrary) {
  EXPECT_THAT(words_for("libm.so.6"), HasSubstr("libm.so.6: it has no rueda_mpi_module"));
}

// This program has no MPI, and the question must not load it.
TEST(MpiModuleTest, MpiHasNotBegun) { EXPECT_FALSE(mpi_has_begun()); }

}  // namespace
}  // namespace rueda
