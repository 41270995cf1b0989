// SPDX-License-Identifier: Apache-2.0
// The parameters of an optimizer, of which each rank steps a part.
#pragma once

#include <torch/optim/optimizer.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/engine/runtime.h"
#include "frameworks/torch/sharding/recoverable_parts.h"
#include "frameworks/torch/state/saved_values.h"
#include "rueda/rueda.h"
#include "rueda/torch/collectives/scope_reference.h"

namespace rueda {

// Purpose: keeps all parameters in one block of memory and gives each rank a part of it, of equal size.
// Inside one host the block is one for all ranks: values of the owner are there for everybody, and nobody
// gathers. If that is not possible (several hosts, too little memory, a device), each rank has a block, and
// parts are gathered. On a device the host waits for none of that. Used by the thread that steps; belongs to
// a ShardedOptimizer.
//
// Parts are cut between parameters, or inside one at a multiple of kGrain elements, so that kernels give the
// same bits on a part as on the whole.
//
// While this lives the parameters are one: they are read between steps and written inside a step only, when
// all ranks have come to it. Another writer (a checkpoint that is loaded) writes the same on every rank, or
// on one, with a barrier after it.
class ParameterShards final : public DividedParts {
 public:
  static constexpr std::int64_t kGrain = 1024;
  // How parameters are divided.
  struct Division {
    Rank copies = 0;     // so many further ranks keep a copy of each part, and step it, too
    bool alone = false;  // this rank has all parts, and no rank steps. Not collective
  };

  // Collective. All parameters get the values of rank 0. Throws Mismatch when ranks differ in them and
  // InvalidArgument for a parameter that is part of another tensor, or given twice, or on another device: on
  // all ranks in the same words, which name those that have it.
  ParameterShards(const Groups& groups, const Division& division, Runtime& runtime);
  // Each rank gets a copy of its own.
  ~ParameterShards() override;
  ParameterShards(const ParameterShards&) = delete;
  ParameterShards& operator=(const ParameterShards&) = delete;

  std::string subject() const override { return "sharded optimizer"; }
  Runtime& runtime() const override { return runtime_.get().runtime(); }
  Rank ranks() const override { return ranks_; }
  const Groups& groups() const override { return parts_of_groups_; }
  const std::vector<at::Tensor>& parameters() const override { return parameters_; }
  bool shared() const { return shared_; }

  // A rank refuses a sparse gradient, and parameters that are not those of the block any more.
  void begin_step(const Groups& stepped) override;
  void end_step(bool well) override;
  void renew_copies() override;

  // The state of the optimizer of these parts, put together on `root`, one parameter at a time. Collective.
  SavedModel gather_state(const torch::optim::Optimizer& optimizer, Rank root) const;
  // Gives it this rank's parts of that. Throws InvalidArgument for values that do not fit.
  void load_state(torch::optim::Optimizer& optimizer, const MakeState& make_state,
                  const SavedModel& saved) const;

  std::map<Rank, std::vector<SavedParameter>> held(const std::vector<SavedValues>& states) const override;
  std::vector<SavedParameter> to_fill() const override;

  // The additional values in the archive of a part, and the check that an archive fits.
  void save(torch::serialize::OutputArchive& archive) const;
  void check(torch::serialize::InputArchive& archive) const;

 private:
  struct Part {
    std::size_t parameter;
    std::int64_t begin;  // elements
    std::int64_t end;
    Rank number;  // the rank that owns it; others have a copy
    at::Tensor leaf;
    at::Tensor original;  // of a copy beside the block: the same part in there
  };
  // The begin of a rank's part, and the end of the part before it.
  struct Cut {
    std::size_t parameter;
    std::int64_t element;
  };

  std::vector<std::string> take_over(const Groups& groups);
  void make_block(bool alone);
  // Of the block, which it keeps.
  at::Tensor tensor_at(std::byte* memory, at::IntArrayRef sizes, at::IntArrayRef strides,
                       at::ScalarType type) const;
  at::Tensor bytes_of_all() const;
  Cut cut_of(Rank rank) const;
  std::int64_t offset_of(Cut cut) const;  // bytes from the beginning of the block
  std::byte* memory_of(std::size_t parameter) const { return block_.get() + offsets_[parameter]; }
  void make_parts(const Groups& groups);
  void add_part(std::size_t parameter, Rank number, std::vector<at::Tensor>& leaves);
  Status give_gradients();
  SteppedPart stepped(const Part& part) const;
  Status check_step(const Groups& stepped) const;
  void gather();

  const ScopeReference runtime_;
  const Rank rank_, ranks_;             // its number and theirs, as the parameters are divided
  const Rank copies_;                   // of each part
  std::vector<at::Tensor> parameters_;  // in order, each once
  at::Device device_{at::kCPU};         // of all
  std::vector<std::int64_t> offsets_;   // bytes of the block
  std::int64_t bytes_ = 0;
  std::int64_t elements_ = 0;
  std::shared_ptr<std::byte> block_;
  bool shared_ = false;
  std::vector<Part> parts_;
  Groups parts_of_groups_;
  std::string scope_;
};

}  // namespace rueda
