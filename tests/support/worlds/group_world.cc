// SPDX-License-Identifier: Apache-2.0
#include "tests/support/worlds/group_world.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "frameworks/torch/c10d/group_job.h"

namespace rueda {
namespace {

constexpr std::chrono::seconds kTimeout{60};  // under a sanitizer, on a busy machine

}  // namespace

std::string GroupWorld::words_of_c10d(const std::function<void()>& act) {
  try {
    act();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return {};
}

void GroupWorld::run_group(int ranks, const GroupBody& body) {
  for (int rank = 0; rank < ranks; ++rank)
    devices_.push_back(std::make_shared<FakeDevices>(static_cast<unsigned>(rank), std::to_string(rank)));
  run_on_devices(ranks, body);
}

void GroupWorld::run_group_by_the_host(int ranks, const GroupBody& body) {
  for (int rank = 0; rank < ranks; ++rank)
    devices_.push_back(std::make_shared<FakeDevices>(static_cast<unsigned>(rank), "the same"));
  run_on_devices(ranks, body);
}

void GroupWorld::run_on_devices(int ranks, const GroupBody& body) {
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        run_rank(rank, ranks, body);
      } catch (...) {
        failures[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  GroupJobs::of_process().end_all(kUntilOthersEnd);
  devices_.clear();
  networks_.clear();
  for (const std::exception_ptr& each : failures) {
    if (each) std::rethrow_exception(each);
  }
}

void GroupWorld::run_rank(int rank, int size, const GroupBody& body) {
  const FakeTorchDevice device(rank, fake(rank));
  const auto group = c10::make_intrusive<ProcessGroup>(
      store_, rank, size, GroupNames{"rueda", "world"}, kTimeout,
      [this, rank](const ops::GroupStart& each) { return start(each, rank); });
  body(*group, device);
  fake(rank).finish();
  group->shutdown();
}

std::unique_ptr<Runtime> GroupWorld::start(const ops::GroupStart& start, int rank_in_group) {
  MemoryNetwork* network = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<MemoryNetwork>& known = networks_[start.store->in_words()];
    if (!known) known = std::make_unique<MemoryNetwork>(start.size, 0, ranks_per_host_);
    network = known.get();
  }
  RuntimeComponents components = memory_components(*network, start.rank, start.size, {});
  add_nccl(components, add_cuda(components, devices_[static_cast<std::size_t>(rank_in_group)]),
           [this]() -> const NcclLibrary& { return nccl_.library(); });
  return std::make_unique<Runtime>(std::move(components));
}

}  // namespace rueda
