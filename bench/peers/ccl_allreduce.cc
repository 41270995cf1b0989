// SPDX-License-Identifier: Apache-2.0
// oneCCL's allreduce in place, on host memory. Built by alternate.py, where oneCCL is installed.
#include <mpi.h>

#include <oneapi/ccl.hpp>
#include <optional>

#include "bench/peers/peer.h"
#include "bench/rueda_bench/pinning.h"

namespace {

// Purpose: oneCCL from its start to its end; MPI only introduces the ranks to each other. Used by the main
// thread.
class Ccl {
 public:
  Ccl() {
    rueda::bench::pin_to_core();
    ccl::init();
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    ccl::shared_ptr_class<ccl::kvs> meeting;
    ccl::kvs::address_type address;
    if (rank_ == 0) {
      meeting = ccl::create_main_kvs();
      address = meeting->get_address();
    }
    MPI_Bcast(address.data(), static_cast<int>(address.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank_ != 0) meeting = ccl::create_kvs(address);
    all_.emplace(ccl::create_communicator(size_, rank_, meeting));
  }
  ~Ccl() {
    all_.reset();
    MPI_Finalize();
  }
  Ccl(const Ccl&) = delete;
  Ccl& operator=(const Ccl&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  void barrier() { ccl::barrier(*all_); }
  void allreduce(float* values, std::size_t count) {
    ccl::allreduce(values, values, count, ccl::reduction::sum, *all_).wait();
  }
  void take_largest(std::vector<double>& values) {
    ccl::allreduce(values.data(), values.data(), values.size(), ccl::reduction::max, *all_).wait();
  }

 private:
  int rank_ = 0;
  int size_ = 1;
  std::optional<ccl::communicator> all_;
};

}  // namespace

int main(int argc, char** argv) { return rueda::bench::run_peer<Ccl>(argc, argv); }
