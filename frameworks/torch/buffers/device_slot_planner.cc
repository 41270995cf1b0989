// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/buffers/device_slot_planner.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/collectives/tensor_adapter.h"
#include "rueda/torch/collectives/operations.h"

namespace rueda {

DeviceSlotPlanner::DeviceSlotPlanner(std::string name, std::vector<at::Tensor> parameters,
                                     std::vector<at::ScalarType> types, std::vector<Names> banks,
                                     const ScopeReference& scope)
    : name_(std::move(name)),
      parameters_(std::move(parameters)),
      names_(std::move(banks)),
      scope_(scope),
      asked_(parameters_.size()),
      types_(std::move(types)) {}

void DeviceSlotPlanner::note(std::size_t index, at::ScalarType type) {
  order_.push_back(index);
  types_[index] = type;
}

void DeviceSlotPlanner::note_result(std::size_t bank, std::size_t index, const at::Tensor& gradient,
                                    bool takes_window) {
  const bool fits = !takes_window || names_[bank][index].empty() || gradient.nbytes() == asked_[index];
  if (!fits) wanted_on_ = gradient.device();
}

void DeviceSlotPlanner::note_results() {
  if (slots_) slots_->note_reader(true);
  if (wanted_on_) wanted_ = order_;
}

void DeviceSlotPlanner::note_reader() {
  if (slots_) slots_->note_reader(false);
}

std::size_t DeviceSlotPlanner::bytes_of(std::size_t index) const {
  return static_cast<std::size_t>(parameters_[index].numel()) * c10::elementSize(types_[index]);
}

// The layout of the first rank: numbers of parameters in the order of their slots, and bytes; -1 behind the
// last. Those of one type lie together, since they are reduced together; those that had slots and have not
// come in this step come last. A gradient that comes sparse, or never, has no slot.
std::vector<std::int64_t> DeviceSlotPlanner::layout(const at::Device& device) const {
  std::vector<std::size_t> all = wanted_;
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    if (asked_[index] > 0) all.push_back(index);
  }
  std::ranges::stable_sort(all, {}, [&](std::size_t index) { return types_[index]; });
  std::vector<std::int64_t> layout;
  std::vector<bool> placed(parameters_.size());
  for (const std::size_t index : all) {
    const std::size_t bytes = bytes_of(index);
    const bool has_none = names_.front()[index].empty() || bytes == 0;
    if (placed[index] || has_none || parameters_[index].device() != device) continue;
    placed[index] = true;
    layout.insert(layout.end(), {static_cast<std::int64_t>(index), static_cast<std::int64_t>(bytes)});
  }
  layout.resize(2 * parameters_.size(), -1);
  return layout;
}

void DeviceSlotPlanner::share() {
  if (!wanted_on_) return;
  const Scope scope = scope_.get();
  if (scope.runtime().captures().capturing(scope.process_set())) return;
  try {
    get_slots(*std::exchange(wanted_on_, std::nullopt), scope);
  } catch (const Error& error) {
    if (error.code() != StatusCode::invalid_argument) throw;
    log(LogLevel::info, "gradients get no slots on devices yet: {}", error.what());
  }
}

void DeviceSlotPlanner::get_slots(const at::Device& device, const Scope& scope) {
  std::vector<std::int64_t> layout = this->layout(device);
  broadcast_async(name_, view(layout), view(layout), scope.rank_at(0), scope).wait();
  std::vector<DeviceSlots::Wanted> wanted;
  std::ranges::fill(asked_, 0);
  for (std::size_t bank = 0; bank < names_.size(); ++bank) {
    for (std::size_t i = 0; i < layout.size() && layout[i] >= 0; i += 2) {
      const auto index = static_cast<std::size_t>(layout[i]), bytes = static_cast<std::size_t>(layout[i + 1]);
      wanted.push_back({bank, index, names_[bank][index], bytes});
      asked_[index] = bytes;
    }
  }
  slots_ = nullptr;  // before there are others
  slots_ = DeviceSlots::share(wanted, device, scope);
  had_slots_ |= slots_ != nullptr;
  note_reader();
}

at::Tensor DeviceSlotPlanner::take(std::size_t bank, std::size_t index, at::ScalarType type) {
  if (!slots_) return {};
  const Scope scope = scope_.get();
  if (scope.runtime().captures().capturing(scope.process_set())) return {};
  return slots_->take(bank, index, parameters_[index].sizes(), type);
}

// A gradient without a slot may lie in an older window, which somebody may still hold.
GradientPlacement DeviceSlotPlanner::placement(std::size_t bank, std::size_t index,
                                               const at::Tensor& gradient) const {
  if (!had_slots_ || !gradient.is_cuda()) return GradientPlacement::none;
  return contains(bank, index, gradient) ? GradientPlacement::in_slot : GradientPlacement::elsewhere;
}

void DeviceSlotPlanner::abandon() {
  order_.clear();
  wanted_on_.reset();
}

void DeviceSlotPlanner::begin_job() {
  slots_ = nullptr;
  had_slots_ = false;
  std::ranges::fill(asked_, 0);
}

}  // namespace rueda
