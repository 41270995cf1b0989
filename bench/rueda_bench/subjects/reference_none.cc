// SPDX-License-Identifier: Apache-2.0
// Of a build without MPI: one rank, and nothing to compare with.
#include <stdexcept>

#include "bench/rueda_bench/subjects/reference.h"

namespace rueda::bench {

std::unique_ptr<Reference> mpi_reference() {
  throw std::runtime_error("--against mpi: this program was built without MPI. Configure with RUEDA_MPI=ON.");
}

Ranks::Ranks() = default;
Ranks::~Ranks() = default;
std::vector<std::string> Ranks::gather(const std::string& word) const { return {word}; }
void Ranks::take_largest(std::vector<double>&) const {}

}  // namespace rueda::bench
