// SPDX-License-Identifier: Apache-2.0
// From a gradient that autograd has finished to the same gradient reduced over all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "core/default_runtime.h"
#include "frameworks/torch/reducer/gradient_hooks.h"
#include "frameworks/torch/reducer/gradient_options.h"
#include "frameworks/torch/reducer/step_passes.h"
#include "frameworks/torch/reducer/step_reduction.h"
#include "rueda/rueda.h"
#include "rueda/torch/reducer/distributed_options.h"

namespace rueda {

// The state of a step. Its transitions, each with the function that makes it:
//
//   collecting --announce()--> announced --complete()--> reduced, or empty
//   collecting --average_passes(), land()--> reduced
//   any --reset(): begin_step(), a further backward pass, a failure--> collecting
enum class StepState {
  collecting,  // gradients come, and are submitted when they are complete
  announced,   // all that this rank has is submitted, and the other ranks are told
  reduced,     // .grad is the result
  empty,       // one_step_late only: no step is in flight, so .grad has no result
};
std::string_view to_string(StepState state);

// Purpose: the steps of one list of parameters: counts backward passes, says when gradients are submitted and
// waited for. Guarded by its mutex: hooks come on the threads that run backward passes and only submit; all
// else on the thread that steps. Belongs to a GradientReducer; hooks and callbacks of running passes point to
// it, so it stays where it is and outlives them.
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

  // Before the first pass, on the thread that will run it: the first step then takes no longer than others.
  void prepare();
  // After begin_step(): the program steps on the gradients in .grad.
  void note_use();
  // At the end of a generation: gradients that the last step has used, and that the program does not hold,
  // become undefined. So their memory is free when the next generation wants as much.
  void release_used_gradients();

  // Waits until every gradient is reduced; nothing to do when it is already. After an error the next step
  // works. False: one step late, and this is the first, so that there is nothing to step on yet. `whole`: a
  // warning tells of passes that have not run.
  bool synchronize(bool whole = true);
  // One step late: waits for the step that is on its way and puts its gradients into .grad. False when none
  // is.
  bool land();
  // Whether land() has something to do.
  bool on_its_way() const;
  // For ranks that step by themselves: .grad becomes the mean over this rank's passes.
  void average_passes();
  // After synchronize(): the norm of all gradients as they were reduced; nothing where it is not measured.
  std::optional<double> norm() const;
  // How many steps have been synchronized.
  std::uint64_t steps() const;
  // Puts this rank's gradients of this step into .grad, if they are not there yet.
  void show_local_gradients();
  // In the program's step(), before begin_step(): GradientBuffers's.
  void share_slots();
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
  // Throws, once, the failure at the end of a backward pass that was not thrown there.
  void throw_failure();
  // +1: from here on passes only add to .grad, until as many times -1.
  void pause(int change);

  double wait_seconds() const;
  Scope scope() const { return reduction_.scope(); }
  Rank rank() const { return reduction_.rank(); }

 private:
  void before_accumulation(std::size_t index) override;
  void after_accumulation(std::size_t index) override;
  void note_pass();
  void check_alone(std::size_t index) const;
  void clear_up();
  void begin_further_pass();
  void end_pass(int pass);
  void hear_pass_around();
  void keep_failure_of(const std::function<void()>& action);
  void wait_in_backward();
  void announce(bool whole);
  bool reduce_step(bool whole);
  void complete(bool has_result);
  void abandon();
  void reset();

  mutable std::mutex mutex_;  // guards all below
  StepPasses passes_;
  const double again_;  // the factor for reduced gradients that are reduced once more
  const Begin begin_;
  StepReduction reduction_;
  StepState state_ = StepState::collecting;
  bool gradients_used_ = false;  // by a step; no pass has changed them since
  std::uint64_t steps_ = 0;
  std::uint64_t job_ = jobs_begun();  // that the state is of
  Status failed_in_backward_;         // to be thrown
  double wait_seconds_ = 0.0;
  std::optional<GradientHooks> hooks_;                                  // it calls back
  const std::shared_ptr<const void> alive_ = std::make_shared<char>();  // for hooks that may be left over
};

}  // namespace rueda
