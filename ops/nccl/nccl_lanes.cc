// SPDX-License-Identifier: Apache-2.0
#include "ops/nccl/nccl_lanes.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace rueda {
namespace {

ncclUniqueId id_of(const std::string& told) {
  ncclUniqueId id{};
  std::memcpy(id.internal, told.data(), std::min(told.size(), sizeof id.internal));
  return id;
}

}  // namespace

void NcclLanes::make(const NcclFunctions& nccl, Device& device, std::size_t count, std::size_t bytes,
                     bool pinned) {
  lanes_.clear();
  pinned_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    lanes_.push_back(std::make_unique<NcclLane>(nccl, device, bytes));
    if (!pinned) continue;
    pinned_.push_back(device.pinned(bytes));
    if (own_buffer_bytes() == 0) throw std::bad_alloc();
  }
}

void NcclLanes::agree(std::size_t count, std::size_t bytes) {
  lanes_.resize(std::max<std::size_t>(std::min(count, lanes_.size()), 1));
  buffer_bytes_ = bytes;
}

void NcclLanes::connect(const std::vector<std::string>& ids, int size, int index) {
  for (std::size_t i = 0; i < lanes_.size(); ++i) lanes_[i]->connect(id_of(ids.at(i)), size, index);
}

bool NcclLanes::ready() const {
  return std::ranges::all_of(lanes_, [](const auto& lane) { return lane->ready(); });
}

bool NcclLanes::idle() const { return std::ranges::all_of(lanes_, &NcclLane::idle); }

bool NcclLanes::have_told(const std::function<void(NcclLane&)>& tell) {
  if (told_ > 0 && !lanes_[told_ - 1]->ready()) return false;
  if (told_ == lanes_.size()) {
    told_ = 0;
    return true;
  }
  tell(*lanes_[told_++]);
  return false;
}

void NcclLanes::tend(bool failed, bool connected) {
  for (const std::unique_ptr<NcclLane>& lane : lanes_) {
    if (failed) {
      lane->abort();
    } else if (connected && !lane->idle()) {
      lane->ready();
    }
  }
}

void NcclGraphs::connect(const Plan& plan, int size, int index) { of(plan).connect(id_of(id_), size, index); }

void NcclGraphs::give_up(const Plan& plan) {
  if (const auto found = lanes_.find(graph_of(plan)); found != lanes_.end()) found->second->give_up();
}

// Asks NCCL each time about every lane of a graph that is not given up.
void NcclGraphs::tend(bool failed) {
  for (const auto& [key, lane] : lanes_) {
    if (failed) {
      lane->abort_aside();
    } else if (lane->comm() != nullptr && !lane->given_up()) {
      lane->ready();
    }
  }
}

}  // namespace rueda
