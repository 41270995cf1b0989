// SPDX-License-Identifier: Apache-2.0
// Groups of torch.distributed whose ranks are threads, each with a device on which LibTorch computes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <utility>

#include "frameworks/torch/c10d/process_group.h"
#include "tests/support/worlds/torch_device_world.h"

namespace rueda {

// Purpose: one group of one test, with the jobs of two ranks that exchange messages. Its devices and NCCL are
// fakes.
class GroupWorld : public TorchDeviceWorld {
 protected:
  using GroupBody = std::function<void(ProcessGroup&, const FakeTorchDevice&)>;

  // Calls `body` on each rank, and throws the first exception of one.
  void run_group(int ranks, const GroupBody& body);
  // The same by way of the host.
  void run_group_by_the_host(int ranks, const GroupBody& body);
  // From now on, so many ranks are on each host, and find one another by this store.
  void stand_on_hosts(Rank ranks_per_host, c10::intrusive_ptr<c10d::Store> store) {
    ranks_per_host_ = ranks_per_host;
    store_ = std::move(store);
  }
  // The error of c10d with which `act` ends; empty: it ends well.
  static std::string words_of_c10d(const std::function<void()>& act);
  FakeDevice& fake(int rank) { return devices_[static_cast<std::size_t>(rank)]->device(); }

 private:
  void run_on_devices(int ranks, const GroupBody& body);
  void run_rank(int rank, int size, const GroupBody& body);
  std::unique_ptr<Runtime> start(const ops::GroupStart& start, int rank_in_group);

  Rank ranks_per_host_ = 0;  // all
  c10::intrusive_ptr<c10d::Store> store_ = c10::make_intrusive<c10d::HashStore>();
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<MemoryNetwork>> networks_;  // by job; guarded by mutex_
};

}  // namespace rueda
