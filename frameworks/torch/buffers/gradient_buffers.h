// SPDX-License-Identifier: Apache-2.0
// Memory in which gradients are reduced in place.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <vector>

#include "frameworks/torch/buffers/device_slot_planner.h"
#include "frameworks/torch/buffers/gradient_placement.h"
#include "frameworks/torch/buffers/host_blocks.h"
#include "rueda/torch/collectives/scope_reference.h"

namespace rueda {

// Purpose: sees to it that gradients lie where they can be reduced in place. From the second step on, or from
// prepare() on, there is memory for each. In the host's: a block that all ranks of the host reach
// (HostBlocks), in which autograd makes it, so that nothing is copied. On a device: a slot that all ranks
// know (DeviceSlotPlanner). A gradient may come to lie elsewhere: on a device each that autograd has made; on
// the host a sum of several, one of another memory order, or one with a block that another tensor has. Such a
// gradient is copied there when it comes, or when the pass ends, and .grad is that memory from then on.
// Belongs to a StepReduction, which guards it.
//
// Memory that somebody still holds (a .grad that was kept) is left alone. Missing blocks are added at the end
// of the step, up to as much again as gradients need. A gradient without a block, or with a slot that is not
// free, is reduced in its own memory. So is one that is captured into a graph, which knows no windows.
class GradientBuffers {
 public:
  // Names of reductions, by parameter. One without a name gets no slot on a device.
  using Names = DeviceSlotPlanner::Names;

  // `sums`: the memory is for sums of gradients (pairwise_sum.h), not for gradients. `banks`: one for each of
  // the steps whose gradients are there at a time; each has memory of its own. `name`: its name on all ranks.
  GradientBuffers(const std::string& name, std::vector<at::Tensor> parameters, std::vector<Names> banks,
                  bool sums, const ScopeReference& scope);

  // Before the first step: gets the memory on the host that it gets after that step otherwise.
  void prepare();
  // In the first hook of a backward pass: the next ones are expected on this thread.
  void begin_pass() const { host_.serve_this_thread(); }
  // As of DeviceSlotPlanner.
  void note_result(std::size_t bank, std::size_t index, const at::Tensor& gradient, bool takes_window) {
    device_.note_result(bank, index, gradient, takes_window);
  }
  void note_results() { device_.note_results(); }
  void note_reader() { device_.note_reader(); }
  // The step is over, no gradient is on its way: gets blocks where there are none that fit.
  void end_step();
  // In the program's step(): gets slots where the last results have shown that they would be of use.
  // Collective where they have; not in a backward pass, in which ranks may wait for steps of several
  // optimizers in different orders. While a rank has joined nothing is shared.
  void share_slots() { device_.share(); }

  // Multiplies `gradient` by `factor`. Returns it in its block or slot. A gradient that cannot lie there
  // stays in its own memory. If more than `holders` hold its memory it has another owner, for example if
  // autograd gave views of it to two parameters. Then it is copied, unless it is `kept` for the program in
  // .grad.
  PlacedGradient place(std::size_t bank, std::size_t index, const at::Tensor& gradient, double factor,
                       std::size_t holders, bool kept = false);
  // Returns true if the gradient has memory of this object, and nobody else holds it.
  bool has_alone(std::size_t index, const at::Tensor& gradient) const;
  // Zeroes of the parameter's kind, in memory for it or elsewhere.
  PlacedGradient zeros(std::size_t bank, std::size_t index);
  // After a failure: others may still write the blocks that they reduce, so these blocks serve no more. Slots
  // of a device do: only NCCL writes there, and a failure there ends the job.
  void abandon_step();
  // Of a job that is over nothing is left.
  void begin_job();

 private:
  PlacedGradient placed(std::size_t bank, std::size_t index, at::Tensor gradient) const;
  // Memory for it; undefined where there is none.
  at::Tensor take(std::size_t bank, std::size_t index, at::ScalarType type, bool on_device);

  const std::vector<at::Tensor> parameters_;
  const std::size_t banks_;
  const bool sums_;
  const ScopeReference scope_;
  HostBlocks host_;
  DeviceSlotPlanner device_;
};

}  // namespace rueda
