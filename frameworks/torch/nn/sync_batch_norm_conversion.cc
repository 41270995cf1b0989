// SPDX-License-Identifier: Apache-2.0
// Finds batch norms in a module, and puts synchronised ones in their place.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/container/sequential.h>

#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "rueda/torch/nn/sync_batch_norm.h"

namespace rueda {
namespace {

using torch::nn::Module;

// Null for a module that is no batch norm, or when nothing is to be made.
template <class Impl>
std::shared_ptr<SyncBatchNormImpl> made_of(const Module& module, const Scope& scope) {
  const auto* norm = dynamic_cast<const Impl*>(&module);
  return norm != nullptr ? std::make_shared<SyncBatchNormImpl>(*norm, scope) : nullptr;
}

std::shared_ptr<SyncBatchNormImpl> synchronised(const Module& module, const Scope& scope) {
  if (auto made = made_of<torch::nn::BatchNorm1dImpl>(module, scope)) return made;
  if (auto made = made_of<torch::nn::BatchNorm2dImpl>(module, scope)) return made;
  return made_of<torch::nn::BatchNorm3dImpl>(module, scope);
}

bool is_batch_norm(const Module& module) {
  return dynamic_cast<const torch::nn::BatchNorm1dImpl*>(&module) != nullptr ||
         dynamic_cast<const torch::nn::BatchNorm2dImpl*>(&module) != nullptr ||
         dynamic_cast<const torch::nn::BatchNorm3dImpl*>(&module) != nullptr;
}

// Adds the full names of batch norms below `module` that nobody can replace.
void find_others(const Module& module, const std::string& prefix, std::vector<std::string>& others) {
  const bool replaces = dynamic_cast<const torch::nn::SequentialImpl*>(&module) != nullptr;
  for (const auto& child : module.named_children()) {
    if (is_batch_norm(*child.value()) && !replaces) others.push_back(prefix + child.key());
    find_others(*child.value(), prefix + child.key() + ".", others);
  }
}

// A batch norm that stands in several places stays one.
using Made = std::map<const Module*, std::shared_ptr<SyncBatchNormImpl>>;

void replace_in(Module& module, const Scope& scope, Made& made) {
  auto* sequential = dynamic_cast<torch::nn::SequentialImpl*>(&module);
  for (const auto& child : module.named_children()) {
    const std::shared_ptr<Module>& old = child.value();
    if (sequential == nullptr || !is_batch_norm(*old)) {
      replace_in(*old, scope, made);
      continue;
    }
    std::shared_ptr<SyncBatchNormImpl>& fresh = made[old.get()];
    if (!fresh) fresh = synchronised(*old, scope);
    sequential->replace_module(child.key(), fresh);
    for (torch::nn::AnyModule& entry : *sequential) {  // the modules that its forward() calls
      if (entry.ptr() == old) entry = torch::nn::AnyModule(fresh);
    }
  }
}

}  // namespace

int convert_sync_batch_norm(Module& module, const Scope& scope) {
  std::vector<std::string> others;
  if (is_batch_norm(module)) others.emplace_back("the module itself");
  find_others(module, "", others);
  if (!others.empty()) {
    refuse(fmt::format(
        "convert_sync_batch_norm cannot replace {}: LibTorch lets it replace the modules of a Sequential "
        "only, "
        "not members of other classes; declare these as rueda::SyncBatchNorm. Nothing was replaced",
        fmt::join(others, ", ")));
  }
  Made made;
  replace_in(module, scope, made);
  return static_cast<int>(made.size());
}

}  // namespace rueda
