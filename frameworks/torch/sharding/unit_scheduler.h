// SPDX-License-Identifier: Apache-2.0
// A model of which each rank has a part: what is gathered when, and where its gradients go.
#pragma once

#include <torch/optim/optimizer.h>

#include <array>
#include <cstddef>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/rueda.h"
#include "frameworks/torch/collectives/operations.h"
#include "frameworks/torch/collectives/scope_reference.h"
#include "frameworks/torch/reducer/gradient_hooks.h"
#include "frameworks/torch/reducer/gradient_norm.h"
#include "frameworks/torch/sharding/flat_parameter.h"

namespace torch::nn {
class Module;
}  // namespace torch::nn

namespace rueda {

// A plain value, equal on every rank.
struct ShardedModelOptions {
  // Submodules, by the names of named_modules(), whose parameters are gathered together: mostly layers. All
  // that is in none of them, or in several (tied weights), is the root, which is there for a whole pass. Of
  // units inside one another the inner one has what it contains.
  std::vector<std::string> units;
  ReduceOp op = ReduceOp::average;   // or sum
  int backward_passes_per_step = 1;  // gradients add up over n backward passes, and are averaged over them
  Compression compression = Compression::none;  // but for topk, which would change nothing here
  // Inside one host all ranks have one copy of the parameters, and nothing is gathered. Of the host's memory
  // only: on a device it means nothing.
  bool share = true;
};

// Purpose: the units of a model. It gathers each before its forward and its backward computation, the next
// one meanwhile, as the pass before has shown the order; releases it after; and reduces a unit's gradients as
// soon as they are complete, so that each rank is left with its part of them. Used by the thread that trains,
// and, while that waits in backward(), by the one that runs the backward pass: itself, or that of the device.
// Belongs to a ShardedModel; graphs and UnitRunners hold it weakly.
//
// Where units are gathered all ranks run the same units in the same order, and as many passes. These
// operations are numbered, so that ranks that differ get a Mismatch and do not wait for ever.
class UnitScheduler final : public std::enable_shared_from_this<UnitScheduler>, private GradientListener {
 public:
  // Parameters, or pieces, with options of their own.
  using Groups = std::vector<torch::optim::OptimizerParamGroup>;

  // Collective; all parameters get the values of rank 0. Throws Mismatch when ranks differ, InvalidArgument
  // for what cannot be sharded. Held by a shared_ptr.
  UnitScheduler(torch::nn::Module& module, const ShardedModelOptions& options, Runtime& runtime);
  // Parameters that are shared become each rank's own.
  ~UnitScheduler();
  UnitScheduler(const UnitScheduler&) = delete;
  UnitScheduler& operator=(const UnitScheduler&) = delete;

  // Whether all ranks have one copy; the root and the units; all parameters, each once.
  bool shared() const { return shared_; }
  std::vector<std::unique_ptr<FlatParameter>>& units() { return units_; }
  const std::vector<at::Tensor>& parameters() const { return all_; }
  // The groups with this rank's pieces in place of the parameters.
  Groups groups(const Groups& given);
  Runtime& runtime() const { return runtime_.get().runtime(); }
  // A name for the next operation of all ranks.
  std::string next_name();

  // A whole pass: what `forward` returns.
  template <class Forward>
  auto run_model(Forward&& forward) {
    const Inside inside(*this, kRoot);
    auto result = forward();
    watch(result, kRoot);
    return result;
  }
  // A call of a unit, inside of a whole pass; any other module's is only called.
  template <class Forward>
  auto run_unit(const torch::nn::Module& module, Forward&& forward) {
    const auto found = unit_of_.find(&module);
    if (found == unit_of_.end()) return forward();
    const Inside inside(*this, found->second);
    auto result = forward();
    watch(result, found->second);
    return result;
  }

  // Around the step of the pieces.
  void begin_step(const Groups& stepped);
  void end_step(bool well);
  void forget_gradients();
  // What is gathered is free again: of parameters that are about to change. All ranks do it.
  void release_all();
  // Graphs that have saved them refuse to run.
  void mark_parameters_changed();
  // The 2-norm of all gradients; they are scaled down to `most` if it is more. Collective.
  GradientNorm clip(double most);

 private:
  static constexpr std::size_t kRoot = 0;

  // Purpose: a unit is in use.
  struct Inside {
    Inside(UnitScheduler& its, std::size_t number) : units(its), unit(number) { units.enter(unit); }
    ~Inside() { units.leave(unit); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    UnitScheduler& units;
    const std::size_t unit;
  };
  struct Place {
    std::size_t unit;
    std::size_t parameter;
  };
  struct State {
    std::size_t first = 0;   // of its parameters, among all
    int users = 0;           // calls of it that run
    bool submitted = false;  // its gradients are reduced, in this backward pass
    std::optional<TensorHandle> reduction{};
  };

  void make_units(torch::nn::Module& module, const ShardedModelOptions& options);
  void check(const std::string& name, const at::Tensor& tensor);
  void add_unit(const std::string& name, std::vector<FlatParameter::Parameter> parameters);
  void check_ranks(const ShardedModelOptions& options) const;
  void place_parameters(bool share);

  void enter(std::size_t unit);
  void leave(std::size_t unit);
  void begin_pass();
  void need(std::size_t unit);
  void fetch(std::size_t unit);
  std::optional<std::size_t> expected() const;
  void release(std::size_t unit);

  void watch(const at::Tensor& output, std::size_t unit);
  template <class Element>
  void watch(const std::vector<Element>& outputs, std::size_t unit) {
    for (const Element& output : outputs) watch(output, unit);
  }
  template <class... Elements>
  void watch(const std::tuple<Elements...>& outputs, std::size_t unit) {
    std::apply([&](const Elements&... each) { (watch(each, unit), ...); }, outputs);
  }
  // What is no tensor: only a whole pass may return it.
  template <class Other>
  requires(!std::is_convertible_v<const Other&, const at::Tensor&>) void watch(const Other&,
                                                                               std::size_t unit) const {
    check_root(unit);
  }
  void check_root(std::size_t unit) const;

  void before_accumulation(std::size_t index) override;
  void after_accumulation(std::size_t index) override;
  void before_backward(std::size_t unit);
  void note_backward_pass();
  bool complete(std::size_t unit) const;
  void reduce(std::size_t unit);
  void end_backward_pass();
  void collect(std::size_t unit);
  void correct_passes();
  void forget_pass();
  Status objection_to(const Groups& stepped) const;
  Rank rank() const { return runtime().topology().rank; }

  const ScopeReference runtime_;
  const Reduction reduction_;
  const int passes_per_step_;
  std::string scope_;
  std::optional<at::Device> device_;  // of all parameters
  std::uint64_t operations_ = 0;
  bool shared_ = false;
  std::vector<std::unique_ptr<FlatParameter>> units_;  // the root first
  std::map<const torch::nn::Module*, std::size_t> unit_of_;
  std::vector<State> states_;        // of units
  std::vector<at::Tensor> all_;      // parameters, each once, in the order of units
  std::vector<Place> places_;        // of these
  std::vector<std::uint8_t> came_;   // gradients, in this backward pass
  std::vector<at::Tensor> stepped_;  // pieces

  // What the last passes needed, one after another: without gradients, and with.
  std::array<std::vector<std::size_t>, 2> last_needs_;
  std::vector<std::size_t> needs_;  // of this pass
  bool with_gradients_ = false;
  bool as_expected_ = true;
  int forwards_ = 0;                    // whose backward pass has not been
  int backward_pass_ = -1;              // that runs
  int passes_ = 0;                      // of this step
  std::optional<GradientHooks> hooks_;  // last: it calls back
};

// Purpose: what a module calls around its units, so that it can be sharded: runner(*layer, [&] { return
// layer->forward(x); }). Until it is that of a ShardedModel it only calls. A value.
class UnitRunner {
 public:
  UnitRunner() = default;
  // That of a ShardedModel.
  explicit UnitRunner(std::weak_ptr<UnitScheduler> units) : units_(std::move(units)) {}

  // Returns what `forward` returns: a tensor, or a vector or tuple of such.
  template <class Forward>
  auto operator()(const torch::nn::Module& unit, Forward&& forward) const {
    const std::shared_ptr<UnitScheduler> units = units_.lock();
    return units ? units->run_unit(unit, std::forward<Forward>(forward)) : forward();
  }

 private:
  std::weak_ptr<UnitScheduler> units_;
};

}  // namespace rueda
