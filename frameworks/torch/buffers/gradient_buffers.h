// SPDX-License-Identifier: Apache-2.0
// Where gradients are reduced in place.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/runtime.h"
#include "frameworks/torch/buffers/device_slots.h"
#include "frameworks/torch/buffers/gradient_allocator.h"
#include "frameworks/torch/buffers/gradient_placement.h"
#include "frameworks/torch/collectives/scope_reference.h"

namespace rueda {

// A gradient as memory that can be reduced in place: dense, every element for itself.
at::Tensor reducible(const at::Tensor& gradient);

// Purpose: sees to it that gradients lie where they can be reduced in place. From the second step on there is
// memory for each. In the host's: a block that all ranks of the host reach (GradientAllocator), in which
// autograd makes it, so that nothing is copied. On a device: a place that all ranks know (DeviceSlots), in
// the order in which the first rank's gradients came, if the first step has shown that NCCL would work there.
// A gradient that came to lie elsewhere (on a device each that autograd has made; on the host a sum of
// several, one of another memory order, one whose block something else of its size has) is copied there when
// it comes, or when the pass ends, and .grad is that memory from then on. Belongs to a GradientSync, which
// guards it.
//
// Memory that somebody still holds (a .grad that was kept) is left alone. What blocks were lacking is added
// at the end of the step, up to as much again as gradients need; a gradient without one, or whose place is
// not free, is reduced where it lies. So is one that is captured into a graph, which knows no windows.
class GradientBuffers {
 public:
  // Names of reductions, by parameter. One without a name gets no place on a device.
  using Names = std::vector<std::string>;

  // `sums`: the memory is for sums of gradients (pairwise_sum.h), not for gradients. `banks`: one for each of
  // the steps whose gradients are there at a time; each has memory of its own. `name`: what ranks call it.
  GradientBuffers(const std::string& name, std::vector<at::Tensor> parameters, std::vector<Names> banks,
                  bool sums, const ScopeReference& scope);

  // In a hook of a backward pass: the next ones are expected on this thread.
  void begin_pass() const {
    if (blocks_) blocks_->serve_this_thread();
  }
  // A reduction's result is `gradient`. `takes_window`: whether a place in a window is of use to it.
  void note_result(std::size_t bank, std::size_t index, const at::Tensor& gradient, bool takes_window);
  // All of the step's are noted, and this thread's current stream waits for them.
  void note_results();
  // The program goes on with results on this thread's current stream, until the next ones.
  void note_reader();
  // The step is over, no gradient is on its way: gets blocks where there are none that fit.
  void end_step();
  // In the program's step(): gets places where the last results have shown that they would be of use.
  // Collective where they have; not in a backward pass, in which ranks may wait for steps of several
  // optimizers in different orders. While a rank has joined nothing is shared.
  void share_places();

  // `gradient` times `factor`, as memory of its own: that which is for it, the same tensor if it lies there
  // or cannot. It has an owner besides (a gradient that autograd gave to two parameters by views has) if more
  // than `holders` hold its memory: then it is copied, unless it is `kept`, where the program looks for it.
  at::Tensor place(std::size_t bank, std::size_t index, const at::Tensor& gradient, double factor,
                   std::size_t holders, bool kept = false);
  // What place() or zeros() has made of it, for its reduction.
  GradientPlacement placement(std::size_t bank, std::size_t index, const at::Tensor& gradient) const;
  // After a failure: others may still write what they reduce, so these blocks serve no more. Places of a
  // device do: only NCCL writes there, and what fails there ends the job.
  void abandon_blocks();
  // Of a job that is over nothing is left.
  void begin_job();
  // Zeroes of the parameter's kind, in memory for it or elsewhere.
  at::Tensor zeros(std::size_t bank, std::size_t index);

 private:
  at::ScalarType type_of(const at::Tensor& parameter) const;
  std::size_t bytes_of(std::size_t index, at::ScalarType type) const;
  std::vector<std::size_t> sizes() const;
  void get_blocks(Runtime& runtime);
  bool add(const std::vector<std::size_t>& sizes, Rank rank);
  void get_places(const at::Device& device, const Scope& scope);
  std::vector<std::int64_t> layout(const at::Device& device) const;
  void note(std::size_t index, at::ScalarType type);
  at::Tensor in_a_block(std::size_t index, at::ScalarType type);
  at::Tensor in_its_place(std::size_t bank, std::size_t index, at::ScalarType type);

  const std::string name_;
  const std::vector<at::Tensor> parameters_;
  const std::vector<Names> names_;  // by bank
  const bool sums_;
  const ScopeReference scope_;
  std::shared_ptr<SymmetricMemory> memory_;    // of the job for which there are blocks
  std::shared_ptr<GradientAllocator> blocks_;  // null: none yet, or none to be had
  std::vector<std::size_t> sizes_;             // for which there are blocks; empty: none yet
  std::size_t most_ = 0;                       // bytes that blocks_ may have
  std::vector<std::size_t> lacking_;           // bytes, in this step

  std::shared_ptr<DeviceSlots> places_;  // null: none yet, or none to be had
  bool had_places_ = false;              // in this job: an older window may still have some
  std::vector<std::size_t> asked_;       // bytes of places, by gradient, as all ranks have asked for them
  std::vector<at::ScalarType> types_;    // of gradients, as the last ones came
  std::vector<std::size_t> order_;       // in which gradients on devices came, in this step
  std::vector<std::size_t> wanted_;      // the same of the step whose results showed that
  std::optional<at::Device> wanted_on_;  // where results showed that more places would be of use
};

}  // namespace rueda
