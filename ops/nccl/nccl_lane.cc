// SPDX-License-Identifier: Apache-2.0
#include "ops/nccl/nccl_lane.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <new>
#include <thread>
#include <utility>

#include "ops/nccl/nccl_check.h"

namespace rueda {
namespace {

// Looks now and then until it is so, 2 s at most; whether it was.
bool soon(const std::function<bool()>& so) {
  const auto begin = std::chrono::steady_clock::now();
  while (!so()) {
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(2)) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

}  // namespace

NcclLane::NcclLane(const NcclFunctions& nccl, Device& device, std::size_t buffer_bytes, Use use)
    : nccl_(nccl), device_(device), queue_(device.make_queue()), use_(use) {
  if (buffer_bytes == 0) return;
  try {
    buffer_ = device.memory(buffer_bytes);
    buffer_bytes_ = buffer_bytes;
  } catch (const std::bad_alloc&) {  // each tensor travels alone, then
  }
}

NcclLane::~NcclLane() {
  if (aborted_.valid()) aborted_.wait_for(std::chrono::seconds(2));
  try {
    if (connected_) end();
  } catch (const std::exception&) {  // nobody is left to be told
  }
  if (use_ == Use::plans) abort();
}

void NcclLane::end() {
  if (!soon([&] { return idle() && (given_up_ || ready()); }) || given_up_) return;
  for (const auto& [memory, window] : windows_) {
    if (*window == nullptr) continue;  // NCCL had no use for it
    if (nccl_.window_deregister(comm_, *window); !soon([&] { return ready(); })) return;
  }
  windows_.clear();
  if (nccl_.comm_finalize(comm_); !soon([&] { return ready(); })) return;
  nccl_.comm_destroy(comm_);
  comm_ = nullptr;
}

std::shared_ptr<const Fence> NcclLane::record() {
  std::shared_ptr<const Fence> fence = queue_->record();
  if (!fence->captured()) last_ = fence;
  return fence;
}

void NcclLane::connect(const ncclUniqueId& id, int size, int index) {
  device_.make_current();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  check(nccl_, nccl_.comm_init_rank_config(&comm_, size, id, index, &config), "ncclCommInitRankConfig");
}

void NcclLane::begin_window(const DeviceWindow& window) {
  constexpr int kSameOffsets = 1;  // NCCL_WIN_COLL_SYMMETRIC
  windows_.emplace_back(window.memory.get(), std::make_unique<NcclFunctions::Window>(nullptr));
  const ncclResult_t rc = nccl_.window_register(comm_, window.memory.get(), window.bytes,
                                                windows_.back().second.get(), kSameOffsets);
  check(nccl_, rc, "this ends the job, since NCCL on other ranks waits for this one: ncclCommWindowRegister",
        comm_);
}

void NcclLane::end_window(const DeviceWindow& window) {
  const auto found =
      std::ranges::find_if(windows_, [&](const auto& each) { return each.first == window.memory.get(); });
  if (found == windows_.end()) return;
  const NcclFunctions::Window known = *found->second;
  windows_.erase(found);
  if (known == nullptr) return;  // NCCL had no use for it
  check(nccl_, nccl_.window_deregister(comm_, known), "ncclCommWindowDeregister", comm_);
}

bool NcclLane::ready() {
  ncclResult_t state = ncclSuccess;
  check(nccl_, nccl_.comm_get_async_error(comm_, &state), "ncclCommGetAsyncError", comm_);
  check(nccl_, state, "NCCL", comm_);
  connected_ |= state == ncclSuccess;
  return state != ncclInProgress;
}

void NcclLane::abort_aside() {
  connected_ = false;
  if (comm_ == nullptr) return;
  std::promise<void> aborted;
  aborted_ = aborted.get_future();
  std::thread([call = nccl_.comm_abort, comm = std::exchange(comm_, nullptr),
               aborted = std::move(aborted)]() mutable {
    call(comm);
    aborted.set_value();
  }).detach();
}

void NcclLane::abort() {
  connected_ = false;
  if (comm_ != nullptr) nccl_.comm_abort(comm_);
  comm_ = nullptr;
}

}  // namespace rueda
