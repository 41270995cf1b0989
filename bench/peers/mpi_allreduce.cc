// SPDX-License-Identifier: Apache-2.0
// MPI's allreduce in place, of whatever library the program is linked to or finds when it starts.
#include <mpi.h>

#include "bench/peers/peer.h"
#include "bench/rueda_bench/pinning.h"

namespace {

// Purpose: MPI from its start to its end. Used by the main thread.
class Mpi {
 public:
  Mpi() {
    rueda::bench::pin_to_core();
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~Mpi() { MPI_Finalize(); }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  void barrier() { MPI_Barrier(MPI_COMM_WORLD); }
  void allreduce(float* values, std::size_t count) {
    MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void take_largest(std::vector<double>& values) {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_MAX,
                  MPI_COMM_WORLD);
  }

 private:
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

int main(int argc, char** argv) { return rueda::bench::run_peer<Mpi>(argc, argv); }
