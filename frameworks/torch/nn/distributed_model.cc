// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/nn/distributed_model.h"

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/collectives/agreement.h"
#include "frameworks/torch/collectives/fingerprint.h"
#include "rueda/torch/state/parameters.h"

namespace rueda {
namespace {

const DistributedModelOptions& checked(const DistributedModelOptions& options, const Scope& scope,
                                       const torch::nn::Module* module) {
  const Rank rank = scope.runtime().topology().rank;
  if (module == nullptr) refuse(fmt::format("rank {}: DistributedModel of no module; make one first", rank));
  if (options.check_every < 0) {
    refuse(fmt::format("rank {}: check_every is {}; it must be a number of passes, or 0 for never", rank,
                       options.check_every));
  }
  check_members(options.root.value_or(scope.rank_at(0)), scope, "DistributedModel");
  return options;
}

// Of the values in row-major order, whatever the strides.
std::uint64_t fingerprint_of(const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().cpu().contiguous();
  return fingerprint({static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()});
}

}  // namespace

ModelCopies::ModelCopies(std::shared_ptr<torch::nn::Module> module, const DistributedModelOptions& options,
                         const Scope& scope)
    : module_(std::move(module)),
      options_(checked(options, scope, module_.get())),
      scope_(scope),
      root_(options.root.value_or(scope.rank_at(0))),
      name_(scope.runtime().next_name("model", scope.process_set())) {
  check_agreement(name_, "options of DistributedModel",
                  {fmt::format("root {}", root_), fmt::format("check_every {}", options_.check_every)},
                  scope);
  rueda::broadcast_parameters(*module_, root_, scope);
}

void ModelCopies::broadcast_buffers() {
  rueda::broadcast_parameters(module_->named_buffers(), root_, scope_.get());
}

void ModelCopies::broadcast_parameters() {
  rueda::broadcast_parameters(module_->named_parameters(), root_, scope_.get());
}

void ModelCopies::check() { check_copies("parameters of DistributedModel"); }

void ModelCopies::before_forward() {
  if (options_.check_every == 0 || !at::GradMode::is_enabled() || !module_->is_training()) return;
  if (++passes_ % options_.check_every != 0) return;
  check_copies(fmt::format("parameters of DistributedModel before training pass {}", passes_));
}

void ModelCopies::check_copies(const std::string& subject) {
  std::vector<std::string> lines;
  for (const auto& parameter : module_->named_parameters()) {
    lines.push_back(fmt::format("'{}' with the hash {:016x}", parameter.key(), fingerprint_of(*parameter)));
  }
  check_agreement(
      name_ + ".check", subject, lines, scope_.get(),
      "Something has changed them on some ranks only: a step without reduced gradients, a load, "
      "random numbers. Do it on every rank, or give all ranks the root's by broadcast_parameters().");
}

}  // namespace rueda
