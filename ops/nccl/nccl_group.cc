// SPDX-License-Identifier: Apache-2.0
#include "ops/nccl/nccl_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "ops/nccl/nccl_check.h"

namespace rueda {
namespace {

constexpr std::size_t kLeastBuffer = std::size_t{1} << 20;  // where it is needed, whatever is fused

}  // namespace

// The introduction of each member. The ids of the first member count.
struct NcclGroup::Introduction {
  std::string problem;  // why it cannot; empty if it can
  std::string host;
  bool knows_device = false;
  std::string device;  // its identity
  bool may_share_devices = false;
  bool encrypted = false;
  std::size_t buffer_bytes = 0;
  std::vector<std::string> ids;  // one for each lane that it has
};

NcclGroup::Introduction NcclGroup::read(Reader& reader) {
  Introduction one;
  one.problem = reader.get_string();
  one.host = reader.get_string();
  one.knows_device = reader.get<std::uint8_t>() != 0;
  one.device = reader.get_string();
  one.may_share_devices = reader.get<std::uint8_t>() != 0;
  one.encrypted = reader.get<std::uint8_t>() != 0;
  one.buffer_bytes = static_cast<std::size_t>(reader.get_size());
  one.ids = reader.get_list<std::string>(1, [](Reader& r) { return r.get_string(); });
  return one;
}

// Makes what this rank needs; what that lacks is for all to hear.
std::string NcclGroup::problem_of_device(Device& device) {
  if (!own_.nccl().problem.empty()) return fmt::format("NCCL cannot be used ({})", own_.nccl().problem);
  if (!lanes_.empty()) return {};  // made when the members connected before
  try {
    device.make_current();
    const bool pinned = reach_ == NcclReach::host;
    const std::size_t bytes = pinned ? std::max(own_.buffer_bytes, kLeastBuffer) : own_.buffer_bytes;
    lanes_.make(own_.nccl().functions, device, own_.lanes, bytes, pinned);
  } catch (const std::bad_alloc&) {
    lanes_.clear();
    return "there is no memory for the buffers of reductions inside its host; set a smaller "
           "RUEDA_FUSION_THRESHOLD";
  } catch (const std::exception& error) {
    lanes_.clear();
    return error.what();
  }
  return {};
}

// By which NCCL connects; none where there is a problem, or it says one.
std::string NcclGroup::make_id(std::string& problem) const {
  if (!problem.empty()) return {};
  ncclUniqueId made{};
  const ncclResult_t rc = own_.nccl().functions.get_unique_id(&made);
  if (rc != ncclSuccess) problem = own_.nccl().functions.get_error_string(rc);
  return {made.internal, sizeof made.internal};
}

Bytes NcclGroup::introduction(Devices& devices, std::optional<int> number) {
  Device* const device = number ? &devices.at(*number) : nullptr;
  if (number && *number != device_) lanes_.clear();
  device_ = number.value_or(device_);
  std::string problem = device == nullptr ? "" : problem_of_device(*device);
  std::vector<std::string> ids(own_.lanes);
  for (std::string& id : ids) {
    if (device != nullptr && (reach_ == NcclReach::host || index_ == 0)) id = make_id(problem);
  }
  Writer writer;
  writer.put_string(problem);
  writer.put_string(own_.host);
  writer.put(static_cast<std::uint8_t>(device != nullptr));
  writer.put_string(device == nullptr ? "" : device->identity());
  writer.put(static_cast<std::uint8_t>(own_.may_share_devices));
  writer.put(static_cast<std::uint8_t>(own_.encrypted));
  writer.put_size(lanes_.own_buffer_bytes());
  writer.put_count(ids.size());
  for (const std::string& id : ids) writer.put_string(id);
  return writer.take();
}

std::string NcclGroup::problem_between(const std::vector<Introduction>& all) const {
  const bool may_share = std::ranges::all_of(all, &Introduction::may_share_devices);
  const auto elsewhere = [&](const Introduction& each) { return each.host != all.front().host; };
  if (reach_ == NcclReach::all && std::ranges::any_of(all, &Introduction::encrypted) &&
      std::ranges::any_of(all, elsewhere))
    return "NCCL does not encrypt what it sends between hosts, and RUEDA_ENCRYPT=1 wants that";
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

std::string NcclGroup::joined_without_device(const std::vector<Introduction>& all) const {
  const auto unknown = std::ranges::find(all, false, &Introduction::knows_device);
  if (unknown == all.end()) return {};
  return fmt::format("rank {} has joined before it had a tensor on a device",
                     members_.at(static_cast<Rank>(unknown - all.begin())));
}

bool NcclGroup::introduced(Reader reader) {
  std::vector<Introduction> all;
  for (Rank i = 0; i < size(); ++i) all.push_back(read(reader));
  if (!reader.complete())
    throw BackendError(Status::backend_error("what ranks say of their devices is of another build"));
  problem_ = joined_without_device(all);
  if (!problem_.empty()) {  // the lanes are kept for the next time
    stage_ = Stage::unknown;
    return false;
  }
  problem_ = problem_between(all);
  if (!problem_.empty()) {
    lanes_.clear();
    stage_ = Stage::refused;
    return true;
  }
  std::size_t lanes = lanes_.size(), bytes = all.front().buffer_bytes;
  for (const Introduction& each : all) {
    lanes = std::min(lanes, each.ids.size());
    bytes = std::min(bytes, each.buffer_bytes);
    several_hosts_ |= each.host != all.front().host;
  }
  lanes_.agree(lanes, bytes);
  connect(all);
  stage_ = Stage::connecting;
  return true;
}

// By the ids of the first of those whom it connects.
void NcclGroup::connect(const std::vector<Introduction>& all) {
  const Introduction* first = nullptr;
  for (Rank i = 0; i < size(); ++i) {
    const Introduction& each = all[static_cast<std::size_t>(i)];
    if (reach_ == NcclReach::host && each.host != own_.host) continue;
    if (first == nullptr) first = &each;
    if (i == index_) connected_index_ = connected_;
    ++connected_;
  }
  lanes_.connect(first->ids, connected_, connected_index_);
}

void NcclGroup::poll() {
  if (stage_ == Stage::connecting && lanes_.ready()) stage_ = Stage::ready;
}

bool NcclGroup::can_register(const DeviceWindow& window) const {
  return own_.nccl().functions.has_windows() && own_.memory->gave(window.memory.get());
}

bool NcclGroup::registered(const DeviceWindow& window) {
  return lanes_.have_told([&](NcclLane& lane) { lane.begin_window(window); });
}

bool NcclGroup::gave_back(std::vector<std::size_t>& windows) {
  if (windows.empty()) return true;
  if (!lanes_.is_telling() && !lanes_.idle()) return false;
  const std::size_t last = windows.back();
  const bool known = windows_.registered(last);
  if (known && !lanes_.have_told([&](NcclLane& lane) { lane.end_window(windows_.shared(last)); }))
    return false;
  windows_.remove(last);
  windows.pop_back();
  return windows.empty();
}

std::unique_ptr<NcclLane> NcclGroup::make_graph_lane(Device& device) const {
  auto lane = std::make_unique<NcclLane>(own_.nccl().functions, device, buffer_bytes(), NcclLane::Use::graph);
  if (lane->buffer_bytes() == buffer_bytes()) return lane;
  throw std::runtime_error(
      fmt::format("there is no memory for a graph's buffer of {} bytes; set a smaller "
                  "RUEDA_FUSION_THRESHOLD",
                  buffer_bytes()));
}

Bytes NcclGroup::graph_words(const Plan& plan, Device& device, std::string problem) {
  try {
    if (problem.empty()) graphs_.add(plan, make_graph_lane(device));
  } catch (const std::exception& error) {
    problem = error.what();
  }
  const std::string id = index_ == 0 ? make_id(problem) : "";
  Writer writer;
  writer.put_string(problem);
  writer.put_string(id);
  return writer.take();
}

std::string NcclGroup::problem_of_graph(const Plan& plan, Reader all) {
  std::string problem;
  for (Rank i = 0; i < size(); ++i) {
    const std::string theirs = all.get_string(), id = all.get_string();
    if (i == 0) graphs_.set_id(id);
    if (problem.empty() && !theirs.empty())
      problem =
          fmt::format("the ranks cannot share a graph, since rank {} cannot: {}", members_.at(i), theirs);
  }
  if (!all.complete()) problem = "what ranks say of their graphs is of another build";
  if (!problem.empty()) graphs_.remove(plan);
  return problem;
}

void NcclGroup::connect_graph(const Plan& plan) { graphs_.connect(plan, connected_, connected_index_); }

void NcclGroup::give_up_graph(const Plan& plan) { graphs_.give_up(plan); }

void NcclGroup::tend(bool failed) {
  graphs_.tend(failed);
  lanes_.tend(failed, stage_ == Stage::ready);
}

}  // namespace rueda
