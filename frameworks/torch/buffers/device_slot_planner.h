// SPDX-License-Identifier: Apache-2.0
// Slots on devices for the gradients of a list of parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frameworks/torch/buffers/device_slots.h"
#include "frameworks/torch/buffers/gradient_placement.h"
#include "rueda/rueda.h"
#include "rueda/torch/collectives/scope_reference.h"

namespace rueda {

// Purpose: decides which gradients on a device get a slot that all ranks know (DeviceSlots): in the order in
// which the first rank's came, if a step has shown that NCCL would work there. Belongs to a GradientBuffers;
// guarded with it.
class DeviceSlotPlanner {
 public:
  // Names of reductions, by parameter. One without a name gets no slot.
  using Names = std::vector<std::string>;

  // `types`: of the gradients, until they come. `banks`: one for each of the steps whose gradients are there
  // at a time. `name`: the name of these slots on all ranks.
  DeviceSlotPlanner(std::string name, std::vector<at::Tensor> parameters, std::vector<at::ScalarType> types,
                    std::vector<Names> banks, const ScopeReference& scope);

  // A gradient on a device has come, of that type.
  void note(std::size_t index, at::ScalarType type);
  // A reduction's result is `gradient`. `takes_window`: whether a slot in a window is of use to it.
  void note_result(std::size_t bank, std::size_t index, const at::Tensor& gradient, bool takes_window);
  // All of the step's are noted, and this thread's current stream waits for them.
  void note_results();
  // The program goes on with results on this thread's current stream, until the next ones.
  void note_reader();
  void end_step() { order_.clear(); }
  // Gets slots where the last results have shown that they would be of use. Collective where they have.
  // While a rank has joined nothing is shared.
  void share();

  // Uninitialised memory for the parameter's gradient; undefined if its slot is not free, or there is none. A
  // gradient that is captured into a graph gets none, since a graph knows no windows.
  at::Tensor take(std::size_t bank, std::size_t index, at::ScalarType type);
  bool contains(std::size_t bank, std::size_t index, const at::Tensor& gradient) const {
    return slots_ && slots_->contains(bank, index, gradient);
  }
  GradientPlacement placement(std::size_t bank, std::size_t index, const at::Tensor& gradient) const;

  // A step has failed: its order is void.
  void abandon();
  // Of a job that is over nothing is left.
  void begin_job();

 private:
  void get_slots(const at::Device& device, const Scope& scope);
  std::vector<std::int64_t> layout(const at::Device& device) const;
  std::size_t bytes_of(std::size_t index) const;

  const std::string name_;
  const std::vector<at::Tensor> parameters_;
  const std::vector<Names> names_;  // by bank
  const ScopeReference scope_;
  std::shared_ptr<DeviceSlots> slots_;   // null: none yet, or none to be had
  bool had_slots_ = false;               // in this job: an older window may still have some
  std::vector<std::size_t> asked_;       // bytes of slots, by gradient, as all ranks have asked for them
  std::vector<at::ScalarType> types_;    // of gradients, as the last ones came
  std::vector<std::size_t> order_;       // in which gradients on devices came, in this step
  std::vector<std::size_t> wanted_;      // the same of the step with results that showed this
  std::optional<at::Device> wanted_on_;  // where results showed that more slots would be of use
};

}  // namespace rueda
