// SPDX-License-Identifier: Apache-2.0
// NCCL among ranks that are threads, on FakeDevices: it remembers what it is asked, carries it out when all
// ranks' streams have come there, and fails when it is told to, and where some members' memory is known to it
// and others' not, or lies elsewhere in its window. As NCCL does, it ends and aborts no communicator of which
// a graph holds a call: it waits for the graph's end.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ops/nccl/nccl_library.h"
#include "tests/fakes/cuda/fake_devices.h"

namespace rueda {

struct FakeClique;

// Purpose: the library of one test; there is one at a time. Any thread may call it; guarded by its mutex.
class FakeNccl {
 public:
  FakeNccl();
  FakeNccl(const FakeNccl&) = delete;
  FakeNccl& operator=(const FakeNccl&) = delete;
  ~FakeNccl();

  const NcclLibrary& library() const { return library_; }
  // A communicator that the other members have joined, too.
  ncclComm_t alone_of(int size, int rank);
  // What that rank of any communicator has been asked, "ncclAllReduce(5 float32 sum)"; then forgotten.
  std::vector<std::string> take_calls(int rank);
  // From now on that call fails on that rank.
  void fail(const std::string& call, int rank) {
    std::lock_guard lock(mutex_);
    failing_[rank] = call;
  }
  // Blocks that it has given and not got back.
  std::size_t blocks() {
    std::lock_guard lock(mutex_);
    return blocks_.size();
  }
  bool has(const void* block) {
    std::lock_guard lock(mutex_);
    return blocks_.contains(const_cast<void*>(block));
  }
  // As of a version that knows no windows.
  void forget_windows() { library_.functions.window_register = nullptr; }
  // As of one that gives no memory: it is the devices' own.
  void forget_memory() { library_.functions.mem_alloc = nullptr; }
  // Calls between members never come to their end.
  void hang() { hangs_ = true; }

 private:
  friend struct FakeNcclCalls;
  std::mutex mutex_;
  NcclLibrary library_;
  int next_id_ = 0;
  bool hangs_ = false;
  std::atomic<int> aborting_{0};                                // calls that wait for graphs
  std::map<std::string, std::shared_ptr<FakeClique>> cliques_;  // by unique id
  std::map<int, std::vector<std::string>> calls_;
  std::map<int, std::string> failing_;
  std::vector<std::unique_ptr<ncclComm>> comms_;
  FakeDevice memory_{0};  // whose blocks it gives
  std::map<void*, std::shared_ptr<std::byte>> blocks_;
  std::vector<std::shared_ptr<std::byte>> freed_;  // kept, so that no other block begins where one did
};

}  // namespace rueda
