// SPDX-License-Identifier: Apache-2.0
// The parts of a sharded optimizer or model, which an elastic job can recover.
#pragma once

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/sharding/held_parts.h"
#include "frameworks/torch/state/saved_values.h"
#include "rueda/status.h"

namespace rueda {

// Purpose: parameters that are divided among the ranks of one generation. Used by the thread that steps.
class DividedParts {
 public:
  // Parameters, or parts, with options of their own.
  using Groups = std::vector<torch::optim::OptimizerParamGroup>;

  virtual ~DividedParts() = default;

  // In words, without an article.
  virtual std::string subject() const = 0;
  virtual Runtime& runtime() const = 0;
  // How many ranks have parts.
  virtual Rank ranks() const = 0;
  // The groups as they were given, with this rank's parts in place of the parameters.
  virtual const Groups& groups() const = 0;
  // Whole, each once.
  virtual const std::vector<at::Tensor>& parameters() const = 0;

  // When gradients are reduced. Gives the parts their gradients. Returns when all ranks have come here.
  // Throws on all ranks if one of them refuses, or has joined or left.
  virtual void begin_step(const Groups& stepped) = 0;
  // Returns when all ranks have stepped and all parameters are new. Throws on those that are `well` when
  // another is not.
  virtual void end_step(bool well) = 0;
  // Copies that lie beside the one memory of all ranks get their values from there.
  virtual void renew_copies() = 0;

  // All that this rank has, by the number of the part. `states`: the optimizer's state for each part, in the
  // order of groups(). Values lie in the memory of the parts, but for those on a device.
  virtual std::map<Rank, std::vector<SavedParameter>> held(const std::vector<SavedValues>& states) const = 0;
  // The same without state, to be filled by take(): those of groups() first. end_step() ends that.
  virtual std::vector<SavedParameter> to_fill() const = 0;
};

// Purpose: divides the parameters anew when the ranks change, and gives each rank its parts of the present
// version. A version is a number of steps. Until the first division a rank has all parts, and cannot step.
// Used by the thread that steps. Belongs to a DividedOptimizer.
//
// Each part is stepped by several ranks: by its owner, and by `copies` ranks after it, from the same
// gradients and with the same bits. All ranks that pass the barrier before a step have all gradients, so they
// complete that step even if a rank is lost in it: end_step() keeps the failure back, and throw_kept_back()
// throws it after the commit. A rank whose barrier fails may have all gradients, too: its step is due, and it
// takes that step later if another rank has taken it.
class RecoverableParts {
 public:
  using Groups = DividedParts::Groups;
  using States = std::vector<SavedValues>;  // of each leaf, in the order of the groups
  // Divides the `present` parts among the ranks of another Runtime, without their values. Collective.
  using Divide =
      std::function<std::unique_ptr<DividedParts>(const DividedParts& present, Rank copies, Runtime&)>;

  // `alone`: the parts were made without the other ranks, in an elastic job outside of elastic::run().
  RecoverableParts(std::unique_ptr<DividedParts> parts, Rank copies, bool alone, Divide divide);

  DividedParts& parts() const { return *parts_; }
  // Whether ranks have divided the parameters.
  bool divided() const { return versions_.division > 0; }
  // Throws InvalidArgument unless they have.
  void check_divided() const;
  // From the next division on there are copies, and failures are kept back.
  void keep_copies() { recoverable_ = true; }

  // As those of DividedParts.
  void begin_step(const Groups& stepped);
  void end_step(bool well);
  // Throws the failure that end_step() has kept back.
  void throw_kept_back() const { throw_if_error(failure_); }

  // Around a change of all values and states that is no step: a checkpoint that is loaded. It makes a version
  // of its own. `states` are those before it, which stay the committed ones.
  void begin_load(const States& states);
  void end_load();

  // Commits the present version: with a copy of it, or without.
  void save(States states);
  void note();
  // Goes back to the last commit, by the next divide(). Steps are refused until then.
  void restore() { restored_ = versions_.live != versions_.committed; }
  // Whether the rank has stepped since a note().
  bool is_ahead() const { return !kept_ && versions_.live != versions_.committed; }
  // Whether there was one step since the commit, and no operation of this rank has ended since that step.
  bool stepped_alone() const;

  // Chooses the version to go on from: that of rank `root`. Collective, as divide() after it.
  void agree_on_version(Rank root, Runtime& runtime);
  // True if the barrier before a step has failed: the gradients of that step are still needed.
  bool may_be_due() const { return due_; }
  // True if this rank has still to take the last step before it: step the parts, then call end_due_step().
  bool is_step_due() const { return due_ && versions_.live + 1 == versions_.target; }
  void end_due_step();
  // Divides that version among all ranks. `states` are those of the present parts. Returns the new parts,
  // with their state, in the order of to_fill(). Throws InvalidArgument on all ranks if a part is lost. If it
  // fails, all stays as it was.
  std::vector<SavedParameter> divide(const States& states, Runtime& runtime);

 private:
  // Numbers of steps, and of the division.
  struct Versions {
    std::int64_t division = 0;  // 0: none
    std::int64_t live = 0;      // of the parts; kTorn: a step has failed in its midst
    std::int64_t committed = 0;
    std::int64_t loading = 0;  // live before begin_load()
    std::int64_t target = 0;   // of agree_on_version()
    bool is_source = false;    // this rank is its root
  };
  static constexpr std::int64_t kTorn = -1;

  std::uint64_t changes() const;
  HeldParts hold(const States& states) const;
  std::vector<HeldParts> all_held(const States& states) const;

  const Rank copies_;
  const Divide divide_;
  std::unique_ptr<DividedParts> parts_;
  Versions versions_;
  std::optional<HeldParts> kept_;  // of the last commit, if that has a copy
  std::vector<HeldParts> former_;  // of the division before, until all ranks have come to a step
  bool recoverable_ = false;
  bool due_ = false;              // the barrier before a step has failed
  bool restored_ = false;         // see restore()
  Status failure_;                // kept back
  std::uint64_t operations_ = 0;  // that had ended after the last step
  std::uint64_t changes_ = 0;     // of parameters, then
};

}  // namespace rueda
