// SPDX-License-Identifier: Apache-2.0
// Memory of a device in which gradients have their slots.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "rueda/rueda.h"

namespace rueda {

// Purpose: a window (share_window_async) of the ranks of a scope, with a slot for each of some gradients, by
// the name of its reduction; one for each bank of these, which take turns. A slot is taken by one tensor at
// a time, and free again when that is gone. Made by a GradientBuffers; tensors keep it alive. Any thread may
// use it: guarded by its mutex.
class DeviceSlots : public std::enable_shared_from_this<DeviceSlots> {
 public:
  struct Wanted {
    std::size_t bank;
    std::size_t index;  // of the gradient
    std::string name;   // of its reduction
    std::size_t bytes;  // more than 0
  };

  // One behind the other, the same on all ranks. Collective; null on all of them if one has no memory, and
  // says so, or if a window would be of no use.
  static std::shared_ptr<DeviceSlots> share(const std::vector<Wanted>& wanted, const at::Device& device,
                                            const Scope& scope);

  // Whether there is a slot for the gradient, and the tensor lies in it, and fills it.
  bool contains(std::size_t bank, std::size_t index, const at::Tensor& tensor) const;
  // An uninitialised tensor in it, row by row, for this thread's current stream; undefined where there is
  // none of that size, or somebody has it.
  at::Tensor take(std::size_t bank, std::size_t index, at::IntArrayRef sizes, at::ScalarType type);
  // Until these slots are taken again, work on this thread's current stream may read them. `anew`: this
  // stream alone, but for those that say so later.
  void note_reader(bool anew);

 private:
  struct Slot {
    std::size_t offset = 0;
    std::size_t bytes = 0;  // 0: there is none
    bool taken = false;     // guarded by the mutex
  };

  DeviceSlots(const std::vector<Wanted>& wanted, const at::Device& device);
  const Slot* find(std::size_t bank, std::size_t index) const;
  c10::Stream current_stream() const;
  void come_behind_readers();

  const at::Device device_;
  std::size_t bytes_ = 0;
  std::vector<std::vector<Slot>> banks_;  // slots by gradient
  std::shared_ptr<std::byte> memory_;
  std::mutex mutex_;
  std::vector<c10::Stream> readers_;  // guarded by the mutex
  std::vector<c10::Stream> behind_;   // streams that have been made to wait for them; guarded by the mutex
};

}  // namespace rueda
