// SPDX-License-Identifier: Apache-2.0
#include "ops/nccl/nccl_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "ops/nccl/nccl_check.h"

namespace rueda {
namespace {

constexpr std::size_t kLeastBuffer = std::size_t{1} << 20;  // where it is needed, whatever is fused

}  // namespace

// What each member tells. The first one's ids count.
struct NcclGroup::Introduction {
  std::string problem;  // why it cannot; empty if it can
  std::string host;
  std::string device;  // its identity
  bool may_share_devices = false;
  std::size_t buffer_bytes = 0;
  std::vector<std::string> ids;  // one for each lane that it has
};

NcclGroup::Introduction NcclGroup::read(Reader& reader) {
  Introduction one;
  one.problem = reader.get_string();
  one.host = reader.get_string();
  one.device = reader.get_string();
  one.may_share_devices = reader.get<std::uint8_t>() != 0;
  one.buffer_bytes = static_cast<std::size_t>(reader.get_size());
  one.ids = reader.get_list<std::string>(1, [](Reader& r) { return r.get_string(); });
  return one;
}

// Makes what this rank needs; what that lacks is for all to hear.
std::string NcclGroup::own_problem(Device& device) {
  if (!own_.nccl().problem.empty()) return fmt::format("NCCL cannot be used ({})", own_.nccl().problem);
  try {
    lanes_.clear();
    pinned_.clear();
    const std::size_t bytes =
        reach_ == NcclReach::host ? std::max(own_.buffer_bytes, kLeastBuffer) : own_.buffer_bytes;
    for (std::size_t i = 0; i < own_.lanes; ++i) {
      lanes_.push_back(std::make_unique<NcclLane>(own_.nccl().functions, device, bytes));
      if (reach_ == NcclReach::all) continue;
      pinned_.push_back(device.pinned(bytes));
      if (lanes_.back()->buffer_bytes() == 0) throw std::bad_alloc();
    }
  } catch (const std::bad_alloc&) {
    return "there is no memory for the buffers of reductions inside its host; set a smaller "
           "RUEDA_FUSION_THRESHOLD";
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

Bytes NcclGroup::introduction(Device& device, int number) {
  device_ = number;
  std::string problem = own_problem(device);
  std::vector<std::string> ids(own_.lanes);
  for (std::string& id : ids) {
    if ((reach_ == NcclReach::all && place_ != 0) || !problem.empty()) continue;
    ncclUniqueId made{};
    const ncclResult_t rc = own_.nccl().functions.get_unique_id(&made);
    if (rc != ncclSuccess) problem = own_.nccl().functions.get_error_string(rc);
    id.assign(made.internal, sizeof made.internal);
  }
  Writer writer;
  writer.put_string(problem);
  writer.put_string(own_.host);
  writer.put_string(device.identity());
  writer.put(static_cast<std::uint8_t>(own_.may_share_devices));
  writer.put_size(lanes_.empty() ? 0 : lanes_.back()->buffer_bytes());
  writer.put_count(ids.size());
  for (const std::string& id : ids) writer.put_string(id);
  return writer.take();
}

std::string NcclGroup::objection(const std::vector<Introduction>& all) const {
  const bool may_share = std::ranges::all_of(all, &Introduction::may_share_devices);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Rank rank = members_.at(static_cast<Rank>(i));
    if (!all[i].problem.empty()) return fmt::format("rank {}: {}", rank, all[i].problem);
    const auto same = std::ranges::find(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(i),
                                        all[i].device, &Introduction::device);
    const std::ptrdiff_t other = same - all.begin();
    if (other < static_cast<std::ptrdiff_t>(i) && !may_share) {
      return fmt::format(
          "ranks {} and {} use one device, which NCCL does not allow; give each its own "
          "(CUDA_VISIBLE_DEVICES, or torch::Device by local_rank())",
          members_.at(static_cast<Rank>(other)), rank);
    }
  }
  return {};
}

void NcclGroup::introduced(Reader reader) {
  std::vector<Introduction> all;
  for (Rank i = 0; i < size(); ++i) all.push_back(read(reader));
  if (!reader.complete())
    throw BackendError(Status::backend_error("what ranks say of their devices is of another build"));
  problem_ = objection(all);
  if (!problem_.empty()) {
    lanes_.clear();
    stage_ = Stage::refused;
    return;
  }
  std::size_t lanes = lanes_.size();
  buffer_bytes_ = all.front().buffer_bytes;
  for (const Introduction& each : all) {
    lanes = std::min(lanes, each.ids.size());
    buffer_bytes_ = std::min(buffer_bytes_, each.buffer_bytes);
    several_hosts_ |= each.host != all.front().host;
  }
  lanes_.resize(std::max<std::size_t>(lanes, 1));
  connect(all);
  stage_ = Stage::connecting;
}

// By the ids of the first of those whom it connects.
void NcclGroup::connect(const std::vector<Introduction>& all) {
  const Introduction* first = nullptr;
  for (Rank i = 0; i < size(); ++i) {
    const Introduction& each = all[static_cast<std::size_t>(i)];
    if (reach_ == NcclReach::host && each.host != own_.host) continue;
    if (first == nullptr) first = &each;
    if (i == place_) connected_place_ = connected_;
    ++connected_;
  }
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    ncclUniqueId id{};
    const std::string& told = first->ids.at(i);
    std::memcpy(id.internal, told.data(), std::min(told.size(), sizeof id.internal));
    lanes_[i]->connect(id, connected_, connected_place_);
  }
}

void NcclGroup::poll() {
  if (stage_ != Stage::connecting) return;
  if (std::ranges::all_of(lanes_, [](const auto& lane) { return lane->ready(); })) stage_ = Stage::ready;
}

bool NcclGroup::can_register(const DeviceWindow& window) const {
  return own_.nccl().functions.has_windows() && own_.memory->gave(window.memory.get());
}

bool NcclGroup::registered(const DeviceWindow& window) {
  if (registering_ > 0 && !lanes_[registering_ - 1]->ready()) return false;
  if (registering_ == lanes_.size()) {
    registering_ = 0;
    return true;
  }
  lanes_[registering_++]->begin_window(window);
  return false;
}

void NcclGroup::tend(bool failed) {
  for (const std::unique_ptr<NcclLane>& lane : lanes_) {
    if (failed) {
      lane->abort();
    } else if (stage_ == Stage::ready && !lane->idle()) {
      lane->ready();
    }
  }
}

}  // namespace rueda
