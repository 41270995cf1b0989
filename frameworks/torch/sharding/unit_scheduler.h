// SPDX-License-Identifier: Apache-2.0
// A model of which each rank has a part: the order in which units are gathered.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frameworks/torch/reducer/gradient_hooks.h"
#include "frameworks/torch/reducer/gradient_norm.h"
#include "frameworks/torch/sharding/gather_order.h"
#include "frameworks/torch/sharding/model_units.h"
#include "frameworks/torch/sharding/unit_gradients.h"
#include "rueda/rueda.h"

namespace rueda {

// Purpose: gathers each unit of a model before its forward and its backward computation, the next one
// meanwhile, as the pass before has shown the order; releases it after; and tells UnitGradients which
// gradients have come. Used by the thread that trains, and, while that waits in backward(), by the one that
// runs the backward pass: itself, or that of the device. Belongs to a ShardedModel; graphs and UnitRunners
// hold it weakly.
//
// If units are gathered, all ranks run the same units in the same order, and as many passes. These operations
// are numbered, so that ranks that differ get a Mismatch and do not wait for ever.
class UnitScheduler final : public std::enable_shared_from_this<UnitScheduler>, private GradientListener {
 public:
  using Groups = ModelUnits::Groups;

  // Collective, unless `alone`; as ModelUnits. Held by a shared_ptr.
  UnitScheduler(torch::nn::Module& module, const ShardedModelOptions& options, Runtime& runtime,
                bool alone = false);
  UnitScheduler(const UnitScheduler&) = delete;
  UnitScheduler& operator=(const UnitScheduler&) = delete;

  // Whether all ranks have one copy; the root and the units; all parameters, each once.
  bool shared() const { return units_->shared(); }
  std::vector<std::unique_ptr<FlatParameter>>& units() { return units_->all(); }
  const std::vector<at::Tensor>& parameters() const { return units_->parameters(); }
  // The groups with this rank's pieces in place of the parameters. Called once.
  Groups make_groups(const Groups& given) { return units_->make_groups(given); }
  Runtime& runtime() const { return units_->runtime(); }
  // A name for the next operation of all ranks.
  std::string next_name() { return units_->next_name(); }

  // The parts, which may be divided anew; begin_generation() follows.
  RecoverableParts& recoverable() { return parts_; }
  void begin_generation();

  // Before recoverable().begin_step(), and after it.
  void prepare_step();
  void step_begins() { gradients_->begin_step(); }
  void forget_gradients() { gradients_->forget(); }
  // The gathered memory is free again: for parameters that are about to change. All ranks do it.
  void release_all();
  // Graphs that have saved them refuse to run.
  void mark_parameters_changed() { units_->mark_parameters_changed(); }
  // The 2-norm of all gradients; they are scaled down to `most` if it is more. Collective.
  GradientNorm clip(double most);

 private:
  friend class UnitCall;
  static constexpr std::size_t kRoot = ModelUnits::kRoot;

  void enter(std::size_t unit);
  void leave(std::size_t unit);
  void begin_pass();
  void need(std::size_t unit);
  void release(std::size_t unit);

  void watch(const at::Tensor& output, std::size_t unit);
  void check_root(std::size_t unit) const;

  void before_accumulation(std::size_t index) override;
  void after_accumulation(std::size_t index) override;
  void before_backward(std::size_t unit);
  void note_backward_pass();
  void end_backward_pass();
  void forget_pass();
  Rank rank() const { return units_->rank(); }
  FlatParameter& unit_at(std::size_t unit) const { return (*units_)[unit]; }

  RecoverableParts parts_;
  ModelUnits* units_;                       // the present ones
  std::optional<UnitGradients> gradients_;  // of these; never empty
  GatherOrder order_;
  std::vector<int> users_;  // of units: calls that run
  int forwards_ = 0;        // without a backward pass yet
  int backward_pass_ = -1;  // that runs
  GradientHooks hooks_;     // last: it calls back
};

}  // namespace rueda
