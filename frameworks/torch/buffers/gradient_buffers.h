// SPDX-License-Identifier: Apache-2.0
// Where gradients are reduced in place.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <vector>

#include "frameworks/torch/buffers/device_places.h"
#include "frameworks/torch/buffers/gradient_placement.h"
#include "frameworks/torch/buffers/host_blocks.h"
#include "rueda/torch/collectives/scope_reference.h"

namespace rueda {

// Purpose: sees to it that gradients lie where they can be reduced in place. From the second step on, or from
// prepare() on, there is memory for each. In the host's: a block that all ranks of the host reach
// (HostBlocks), in which autograd makes it, so that nothing is copied. On a device: a place that all ranks
// know (DevicePlaces). A gradient that came to lie elsewhere (on a device each that autograd has made; on the
// host a sum of several, one of another memory order, one whose block something else of its size has) is
// copied there when it comes, or when the pass ends, and .grad is that memory from then on. Belongs to a
// StepReduction, which is guards it.
//
// Memory that somebody still holds (a .grad that was kept) is left alone. What blocks were lacking is added
// at the end of the step, up to as much again as gradients need; a gradient without one, or whose place is
// not free, is reduced where it lies. So is one that is captured into a graph, which knows no windows.
class GradientBuffers {
 public:
  // Names of reductions, by parameter. One without a name gets no place on a device.
  using Names = DevicePlaces::Names;

  // `sums`: the memory is for sums of gradients (pairwise_sum.h), not for gradients. `banks`: one for each of
  // the steps whose gradients are there at a time; each has memory of its own. `name`: what ranks call it.
  GradientBuffers(const std::string& name, std::vector<at::Tensor> parameters, std::vector<Names> banks,
                  bool sums, const ScopeReference& scope);

  // Before the first step: gets the memory on the host that it gets after that step otherwise.
  void prepare();
  // In the first hook of a backward pass: the next ones are expected on this thread.
  void begin_pass() const { host_.serve_this_thread(); }
  // As of DevicePlaces.
  void note_result(std::size_t bank, std::size_t index, const at::Tensor& gradient, bool takes_window) {
    device_.note_result(bank, index, gradient, takes_window);
  }
  void note_results() { device_.note_results(); }
  void note_reader() { device_.note_reader(); }
  // The step is over, no gradient is on its way: gets blocks where there are none that fit.
  void end_step();
  // In the program's step(): gets places where the last results have shown that they would be of use.
  // Collective where they have; not in a backward pass, in which ranks may wait for steps of several
  // optimizers in different orders. While a rank has joined nothing is shared.
  void share_places() { device_.share(); }

  // `gradient` times `factor`, as memory of its own: that which is for it, the same tensor if it lies there
  // or cannot. It has an owner besides (a gradient that autograd gave to two parameters by views has) if more
  // than `holders` hold its memory: then it is copied, unless it is `kept`, where the program looks for it.
  PlacedGradient place(std::size_t bank, std::size_t index, const at::Tensor& gradient, double factor,
                       std::size_t holders, bool kept = false);
  // Zeroes of the parameter's kind, in memory for it or elsewhere.
  PlacedGradient zeros(std::size_t bank, std::size_t index);
  // After a failure: others may still write what they reduce, so these blocks serve no more. Places of a
  // device do: only NCCL writes there, and what fails there ends the job.
  void abandon_step();
  // Of a job that is over nothing is left.
  void begin_job();

 private:
  PlacedGradient placed(std::size_t bank, std::size_t index, at::Tensor gradient) const;
  // Memory for it; undefined where there is none.
  at::Tensor take(std::size_t bank, std::size_t index, at::ScalarType type, bool on_device);

  const std::vector<at::Tensor> parameters_;
  const bool sums_;
  const ScopeReference scope_;
  HostBlocks host_;
  DevicePlaces device_;
};

}  // namespace rueda
