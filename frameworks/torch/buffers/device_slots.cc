// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/buffers/device_slots.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/host_buffer.h"
#include "core/base/log.h"
#include "core/engine/runtime.h"

namespace rueda {

DeviceSlots::DeviceSlots(const std::vector<Wanted>& wanted, const at::Device& device) : device_(device) {
  for (const Wanted& each : wanted) {
    if (banks_.size() <= each.bank) banks_.resize(each.bank + 1);
    std::vector<Slot>& bank = banks_[each.bank];
    if (bank.size() <= each.index) bank.resize(each.index + 1);
    bank[each.index] = {bytes_, each.bytes};
    bytes_ += HostBuffer::whole_lines(each.bytes);
  }
}

std::shared_ptr<DeviceSlots> DeviceSlots::share(const std::vector<Wanted>& wanted, const at::Device& device,
                                                const Scope& scope) {
  const std::shared_ptr<DeviceSlots> slots(new DeviceSlots(wanted, device));
  const Rank rank = scope.runtime().topology().rank;
  DeviceWindow window;
  try {
    window.memory = scope.runtime().allocate_on_device(device.index(), slots->bytes_);
    window.bytes = slots->bytes_;
  } catch (const Error& error) {  // the others hear of it
    log(LogLevel::warning, "rank {}: gradients are packed, not reduced in place, on all ranks. {}", rank,
        error.what());
  }
  for (const Wanted& each : wanted)
    window.slots.push_back({each.name, slots->find(each.bank, each.index)->offset, each.bytes});
  slots->memory_ = window.memory;
  const Handle shared = share_window_async(std::move(window), device.index(), scope);
  if (const Status status = shared.wait_status(); !status.ok()) {
    log(LogLevel::warning, "rank {}: gradients get no slots: {}", rank, status.message);
    return nullptr;
  }
  return shared.takes_window() ? slots : nullptr;
}

const DeviceSlots::Slot* DeviceSlots::find(std::size_t bank, std::size_t index) const {
  if (bank >= banks_.size() || index >= banks_[bank].size()) return nullptr;
  const Slot& slot = banks_[bank][index];
  return slot.bytes > 0 ? &slot : nullptr;
}

bool DeviceSlots::contains(std::size_t bank, std::size_t index, const at::Tensor& tensor) const {
  const Slot* slot = find(bank, index);
  return slot != nullptr && slot->bytes == tensor.nbytes() && tensor.device() == device_ &&
         tensor.is_contiguous() && tensor.const_data_ptr() == memory_.get() + slot->offset;
}

at::Tensor DeviceSlots::take(std::size_t bank, std::size_t index, at::IntArrayRef sizes,
                             at::ScalarType type) {
  const Slot* const found = find(bank, index);
  const auto bytes = static_cast<std::size_t>(c10::multiply_integers(sizes)) * c10::elementSize(type);
  if (found == nullptr || found->bytes != bytes) return {};
  Slot& slot = banks_[bank][index];
  {
    const std::lock_guard lock(mutex_);
    if (slot.taken) return {};
    come_behind_readers();
    slot.taken = true;
  }
  auto give_back = [self = shared_from_this(), &slot](void*) {
    const std::lock_guard lock(self->mutex_);
    slot.taken = false;
  };
  return at::from_blob(memory_.get() + slot.offset, sizes, std::move(give_back),
                       at::TensorOptions(type).device(device_), device_);
}

c10::Stream DeviceSlots::current_stream() const {
  return c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
}

void DeviceSlots::note_reader(bool anew) {
  const c10::Stream stream = current_stream();
  const std::lock_guard lock(mutex_);
  if (anew) readers_.clear();
  if (std::ranges::find(readers_, stream) == readers_.end()) readers_.push_back(stream);
  behind_.clear();
}

// The usual one is the reader itself.
void DeviceSlots::come_behind_readers() {
  const c10::Stream stream = current_stream();
  if (std::ranges::find(behind_, stream) != behind_.end()) return;
  behind_.push_back(stream);
  for (const c10::Stream& reader : readers_) {
    if (reader == stream) continue;
    c10::Event through(device_.type());
    through.record(reader);
    through.block(stream);
  }
}

}  // namespace rueda
