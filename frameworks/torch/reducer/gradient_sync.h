// SPDX-License-Identifier: Apache-2.0
// From a gradient that autograd has finished to the same gradient reduced over all ranks.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/runtime.h"
#include "core/rueda.h"
#include "frameworks/torch/buffers/gradient_buffers.h"
#include "frameworks/torch/buffers/pairwise_sum.h"
#include "frameworks/torch/collectives/scope_reference.h"
#include "frameworks/torch/reducer/distributed_options.h"
#include "frameworks/torch/reducer/gradient_hooks.h"
#include "frameworks/torch/reducer/gradient_norm.h"
#include "frameworks/torch/reducer/gradient_options.h"
#include "frameworks/torch/reducer/gradient_ownership.h"
#include "frameworks/torch/reducer/pass_counter.h"
#include "frameworks/torch/reducer/reduction_round.h"
#include "frameworks/torch/reducer/step_warnings.h"

namespace rueda {

// Purpose: the steps of one list of parameters: counts backward passes, submits gradients, waits, and puts
// results where no gradient was. Guarded by its mutex: hooks come on the threads that run backward passes and
// only submit; all else on the thread that steps. Belongs to a GradientReducer; hooks and callbacks of
// running passes point to it, so it stays where it is and outlives them.
//
// A step:  collecting --synchronize()--> reduced --step(), zero_grad() or the next backward()--> collecting
//
// One step late (schedule one_step_late) synchronize() takes this step's gradients out of .grad, on their
// way, and puts those of the step before there.
class GradientSync final : private GradientListener {
 public:
  // Collective: every rank makes it with the same parameters and options; Mismatch if they are not the same.
  GradientSync(const std::vector<at::Tensor>& parameters, const DistributedOptions& options,
               const Scope& scope);

  // Gradients that are still being reduced are taken from their parameters.
  ~GradientSync() { reset(); }

  // Waits until every gradient is reduced; nothing to do when it is already. After an error the next step
  // works. False: one step late, and this is the first, so that there is nothing to step on yet. `whole`: a
  // warning tells of passes that have not run.
  bool synchronize(bool whole = true);
  // One step late: waits for the step that is on its way and puts its gradients into .grad. False when none
  // is.
  bool land();
  // Whether land() has something to do.
  bool on_its_way() const;
  // Where ranks step by themselves: .grad becomes the mean over this rank's passes.
  void average_passes();
  // After synchronize(): the norm of all gradients as they were reduced; nothing where it is not measured.
  std::optional<double> norm() const { return locked(norm_); }
  // How many steps have been synchronized.
  std::uint64_t steps() const { return locked(steps_); }
  // Puts what this rank has of this step into .grad, where in_shards() it is not yet.
  void show_local_gradients();
  // In the program's step(), before begin_step(): GradientBuffers's.
  void share_places();
  // The step is over: gradients that come now belong to the next.
  void begin_step();
  // As GradientReducer's. Ends a step of which a pass has failed, if gradients of it are on their way; throws
  // InvalidArgument when the last pass could not be reduced.
  void refresh_hooks();
  // Throws InvalidArgument when gradients are being reduced: `action` (say, "zero_grad()") would change them
  // meanwhile.
  void check_not_reducing(const char* action) const;
  // Whether the ranks are capturing a graph.
  bool is_captured() const;
  // Throws what has failed at the end of a backward pass and was not thrown there, once.
  void throw_failure();
  // +1: from here on passes only add to .grad, until as many times -1.
  void pause(int change);

  const std::vector<at::Tensor>& given() const { return given_; }
  double wait_seconds() const { return locked(wait_seconds_); }
  Rank rank() const { return runtime().topology().rank; }

 private:
  struct Parameter {
    at::Tensor tensor;
    std::string name;
    bool complete = false;               // the last gradient of this step has come
    std::optional<const void*> found{};  // .grad at the first pass of this step; unset: there was none
    std::int64_t sparse_dimensions = 0;  // of the last gradient here; 0: it was dense
    PairwiseSum sum{};                   // of the passes of this step; empty unless in_shards()
  };

  void before_accumulation(std::size_t index) override;
  void after_accumulation(std::size_t index) override;
  void note_pass();
  void check_alone(const Parameter& parameter) const;
  void clear_up();
  void begin_further_pass();
  void end_pass(int pass);
  void hear_pass_around();
  void keep_failure_of(const std::function<void()>& action);
  void wait_in_backward();
  bool reduce_step(bool whole);
  void submit_step(bool whole);
  // Whether passes are added up here and not by autograd.
  bool in_shards() const { return reduction_.order == ReductionOrder::fixed && passes_per_step_ > 1; }
  at::Tensor gradient_of(Parameter& parameter) const;

  ReductionRound& flight() { return flights_[flying_]; }
  const ReductionRound& flight() const { return flights_[flying_]; }
  bool one_step_late() const { return flights_.size() > 1; }
  void claim(const Parameter& parameter);
  bool waits(std::size_t index) const;
  void submit_gradient(std::size_t index, double factor, std::size_t holders = 1);
  void submit_rest();
  void submit_stand_in(std::size_t index);
  void submit(std::size_t index, at::Tensor gradient);
  void submit_held(const std::vector<float>& holders);
  bool is_gathered(std::size_t index, const std::vector<float>& holders) const;
  at::Tensor result_of(std::size_t index) const;
  Status finish();
  void take_off();
  template <class T>
  T locked(const T& member) const {
    std::lock_guard lock(mutex_);
    return member;
  }
  void complete();
  void abandon();
  void reset();
  double correction() const;
  void warn_if_early();
  Runtime& runtime() const { return scope_.get().runtime(); }

  mutable std::mutex mutex_;  // guards all below
  const int passes_per_step_;
  const bool in_backward_;  // synchronizes when the last pass of a step ends
  const bool sum_passes_;
  const double again_;         // what reduced gradients are multiplied by to be reduced once more
  const Reduction reduction_;  // of each gradient, passes included
  const Begin begin_;
  const ScopeReference scope_;
  const SparseGradients sparse_;
  const std::vector<at::Tensor> given_;  // repetitions included
  std::vector<Parameter> parameters_;
  std::vector<ReductionRound> flights_;  // one; one step late: two, which take turns
  std::size_t flying_ = 0;               // that of the step whose gradients are coming
  bool reduced_ = false;
  std::optional<SharedNorm> shared_norm_;  // where it is measured
  std::optional<double> norm_;
  std::uint64_t steps_ = 0;
  std::uint64_t job_ = jobs_begun();  // that the state is of
  bool has_result_ = false;           // of the last synchronize()
  PassCounter passes_;                // of this step
  int pauses_ = 0;
  GradientOwnership claimed_;
  std::optional<StepWarnings> warnings_;
  std::optional<GradientBuffers> window_;
  bool hooks_lost_ = false;    // in this step passes may have gone uncounted
  Status failed_in_backward_;  // to be thrown
  double wait_seconds_ = 0.0;
  std::optional<GradientHooks> hooks_;                                  // it calls back
  const std::shared_ptr<const void> alive_ = std::make_shared<char>();  // for hooks that may be left over
};

}  // namespace rueda
