// SPDX-License-Identifier: Apache-2.0
// A module of which every rank has a copy: equal at the start, and checked to be equal as training goes on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "rueda/rueda.h"
#include "rueda/torch/collectives/scope_reference.h"

namespace torch::nn {
class Module;
template <typename Contained>
class ModuleHolder;
}  // namespace torch::nn

namespace rueda {

// A plain value, equal on every rank.
struct DistributedModelOptions {
  std::optional<Rank> root;        // who has the values of the start; unset: the first rank of the scope
  std::int64_t check_every = 100;  // training passes from one check() to the next; 0: never
};

// Purpose: all of DistributedModel but the type of its module. Used by the thread that trains.
class ModelCopies {
 public:
  // As of DistributedModel.
  ModelCopies(std::shared_ptr<torch::nn::Module> module, const DistributedModelOptions& options,
              const Scope& scope);

  // Buffers are each rank's own (running statistics of its batches): gives all ranks those of the root.
  // Collective.
  void broadcast_buffers();
  // Gives all ranks the root's parameters, as at the start. Collective.
  void broadcast_parameters();
  // Returns when every rank's parameters have the same bits. Else throws Mismatch, in the same words on every
  // rank, naming the first that differs and who has what. Collective; reads the parameters once, and sends 16
  // bytes when all agree.
  void check();

 protected:
  // What a forward call begins with: every check_every-th in training, with gradients on, is checked.
  void before_forward();

 private:
  void check_copies(const std::string& subject);

  std::shared_ptr<torch::nn::Module> module_;
  DistributedModelOptions options_;
  ScopeReference scope_;
  Rank root_;
  std::string name_;
  std::int64_t passes_ = 0;
};

// Purpose: a module that all ranks of a scope train, each on its data:
//   rueda::DistributedModel model(Net(10));  // a module holder, or a std::shared_ptr<NetImpl>
//   rueda::DistributedOptimizer<torch::optim::SGD> optimizer(model->parameters(), ...);
//   loss(model(batch.data), batch.target).backward();
// The start is the root's. Gradients are the optimizer's affair. Ranks call it in training equally often, or
// set check_every = 0, as under a SyncSchedule that parts the ranks. Used by the thread that trains; lives as
// long as its Runtime, or begins anew with the next one.
template <class M>
class DistributedModel : public ModelCopies {
 public:
  // Collective: every rank of the scope makes it with a module of the same parameters and buffers, and throws
  // Mismatch if names, types or shapes differ. Throws InvalidArgument for options that cannot mean anything.
  explicit DistributedModel(std::shared_ptr<M> module, const DistributedModelOptions& options = {},
                            const Scope& scope = {})
      : ModelCopies(module, options, scope), module_(std::move(module)) {}
  explicit DistributedModel(const torch::nn::ModuleHolder<M>& module,
                            const DistributedModelOptions& options = {}, const Scope& scope = {})
      : DistributedModel(module.ptr(), options, scope) {}

  // The module's own forward, with what it takes and gives.
  template <class... Inputs>
  decltype(auto) forward(Inputs&&... inputs) {
    before_forward();
    return module_->forward(std::forward<Inputs>(inputs)...);
  }
  template <class... Inputs>
  decltype(auto) operator()(Inputs&&... inputs) {
    return forward(std::forward<Inputs>(inputs)...);
  }

  // The module itself.
  M* operator->() const { return module_.get(); }
  // As operator->.
  M& operator*() const { return *module_; }
  // As operator->, to be shared.
  const std::shared_ptr<M>& module() const { return module_; }

 private:
  std::shared_ptr<M> module_;
};

}  // namespace rueda
