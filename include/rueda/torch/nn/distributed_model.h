// SPDX-License-Identifier: Apache-2.0
// A module with one copy on each rank. The copies start equal, and training checks that they stay equal.
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

// Options of DistributedModel. A plain value, equal on every rank.
struct DistributedModelOptions {
  std::optional<Rank> root;        // rank of the initial values; unset: the first rank of the scope
  std::int64_t check_every = 100;  // number of training passes between checks; 0: no checks
};

// Purpose: the part of DistributedModel that does not depend on the type of the module. Used by the thread
// that trains.
class ModelCopies {
 public:
  // Collective. See the constructor of DistributedModel.
  ModelCopies(std::shared_ptr<torch::nn::Module> module, const DistributedModelOptions& options,
              const Scope& scope);

  // Copies the buffers of the root to all ranks. Otherwise each rank keeps its own, such as the running
  // statistics of its batches. Collective.
  void broadcast_buffers();
  // Copies the parameters of the root to all ranks. Collective.
  void broadcast_parameters();
  // Checks that the parameters of all ranks have the same bits. Otherwise throws Mismatch with the same
  // text on every rank. The text names the first different parameter and the ranks with each value.
  // Collective. It reads the parameters once, and sends 16 bytes if all agree.
  void check();

 protected:
  // Called first in each forward pass. In training with gradients it runs check() in every check_every-th
  // pass.
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

// Purpose: a module that all ranks of a scope train on their own data.
//
//   rueda::DistributedModel model(Net(10));  // a module holder, or a std::shared_ptr<NetImpl>
//   rueda::DistributedOptimizer<torch::optim::SGD> optimizer(model->parameters(), ...);
//   loss(model(batch.data), batch.target).backward();
//
// All ranks start with the values of the root. The optimizer reduces the gradients. In training all ranks
// call the model equally often. Otherwise set check_every = 0, also for a SyncSchedule that lets ranks
// differ. Used by the thread that trains. It lives as long as its Runtime, or continues with the next one.
template <class M>
class DistributedModel : public ModelCopies {
 public:
  // Collective. Every rank of the scope passes a module with the same parameters and buffers. Throws
  // Mismatch if names, types or shapes differ. Throws InvalidArgument for impossible options.
  explicit DistributedModel(std::shared_ptr<M> module, const DistributedModelOptions& options = {},
                            const Scope& scope = {})
      : ModelCopies(module, options, scope), module_(std::move(module)) {}
  explicit DistributedModel(const torch::nn::ModuleHolder<M>& module,
                            const DistributedModelOptions& options = {}, const Scope& scope = {})
      : DistributedModel(module.ptr(), options, scope) {}

  // Calls forward() of the module with these arguments.
  template <class... Inputs>
  decltype(auto) forward(Inputs&&... inputs) {
    before_forward();
    return module_->forward(std::forward<Inputs>(inputs)...);
  }
  template <class... Inputs>
  decltype(auto) operator()(Inputs&&... inputs) {
    return forward(std::forward<Inputs>(inputs)...);
  }

  // Returns the module.
  M* operator->() const { return module_.get(); }
  // Returns the module.
  M& operator*() const { return *module_; }
  // Returns the shared pointer to the module.
  const std::shared_ptr<M>& module() const { return module_; }

 private:
  std::shared_ptr<M> module_;
};

}  // namespace rueda
