// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/state/stateful.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <utility>
#include <vector>

#include "core/base/error.h"
#include "rueda/shape.h"
#include "rueda/torch/state/parameter_groups.h"
#include "rueda/torch/state/per_rank_state.h"

namespace rueda {
namespace {

constexpr const char* kTensor = "0";  // the key under which torch::save puts a tensor

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

// A tensor of a module, and the memory it had before loading, which gave it other.
struct ModuleTensor {
  std::string name;
  at::Tensor tensor;
  at::Tensor memory;
};

std::vector<ModuleTensor> module_tensors(const torch::nn::Module& module) {
  std::vector<ModuleTensor> tensors;
  for (const auto& named : {module.named_parameters(), module.named_buffers()}) {
    for (const auto& item : named) {
      if (item.value().defined()) tensors.push_back({item.key(), item.value(), item.value().detach()});
    }
  }
  return tensors;
}

std::string problem_in(const std::vector<ModuleTensor>& tensors) {
  for (const ModuleTensor& each : tensors) {
    if (each.tensor.sizes() == each.memory.sizes()) continue;
    return fmt::format(
        "'{}' has the shape {}, and {} in what is loaded; load into a module of the same sizes", each.name,
        to_string(each.memory.sizes()), to_string(each.tensor.sizes()));
  }
  return {};
}

void load_in_place(torch::nn::Module& module, torch::serialize::InputArchive& archive) {
  const at::NoGradGuard no_grad;
  std::vector<ModuleTensor> tensors = module_tensors(module);
  std::string error = failure_of([&] { module.load(archive); });
  if (error.empty()) error = problem_in(tensors);
  for (ModuleTensor& each : tensors) {
    const at::Tensor loaded = each.tensor.detach();
    each.tensor.set_data(each.memory);
    if (error.empty() && !loaded.is_alias_of(each.memory)) each.tensor.copy_(loaded);
  }
  if (!error.empty()) refuse(error);
}

}  // namespace

Stateful::Stateful(torch::optim::Optimizer& optimizer) : thing_(&optimizer) {
  if (dynamic_cast<const PerRankState*>(&optimizer) == nullptr) return;
  refuse(
      "a ShardedOptimizer or ShardedModel cannot be saved, loaded or broadcast as a whole: each rank has a "
      "part of its own. Each rank saves and loads its part, by rueda::save_part and rueda::load_part");
}

std::string Stateful::describe() const {
  return std::visit(Overloaded{[](const at::Tensor*) { return std::string("a tensor"); },
                               [](const torch::nn::Module* module) {
                                 return fmt::format("a module of {} parameters and {} buffers",
                                                    module->named_parameters().size(),
                                                    module->named_buffers().size());
                               },
                               [](const torch::optim::Optimizer* optimizer) {
                                 std::string words = "an optimizer of groups of";
                                 for (const auto& group : optimizer->param_groups())
                                   words += fmt::format(" {}", group.params().size());
                                 return words + " parameters";
                               }},
                    thing_);
}

at::Device Stateful::device() const {
  const auto of_first = [](const std::vector<at::Tensor>& tensors) {
    return tensors.empty() || !tensors.front().defined() ? at::Device(at::kCPU) : tensors.front().device();
  };
  return std::visit(
      Overloaded{[&](const at::Tensor* tensor) { return of_first({*tensor}); },
                 [&](const torch::nn::Module* module) { return of_first(module->parameters()); },
                 [&](const torch::optim::Optimizer* optimizer) {
                   return of_first(parameters_of(optimizer->param_groups()));
                 }},
      thing_);
}

void Stateful::save(torch::serialize::OutputArchive& archive) const {
  std::visit(Overloaded{[&](const at::Tensor* tensor) { archive.write(kTensor, *tensor); },
                        [&](const torch::nn::Module* module) { module->save(archive); },
                        [&](const torch::optim::Optimizer* optimizer) { optimizer->save(archive); }},
             thing_);
}

void Stateful::load(torch::serialize::InputArchive& archive) const {
  std::visit(Overloaded{[&](at::Tensor* tensor) {
                          at::Tensor loaded;
                          archive.read(kTensor, loaded);
                          *tensor = std::move(loaded);
                        },
                        [&](torch::nn::Module* module) { load_in_place(*module, archive); },
                        [&](torch::optim::Optimizer* optimizer) {
                          optimizer->state().clear();  // load adds to the present state
                          optimizer->load(archive);
                        }},
             thing_);
}

std::string to_bytes(const Stateful& thing) {
  torch::serialize::OutputArchive archive;
  thing.save(archive);
  return to_bytes(archive);
}

void from_bytes(const std::string& bytes, const Stateful& thing, const LoadOptions& options) {
  torch::serialize::InputArchive archive = read_archive(bytes, thing.device(), options);
  thing.load(archive);
}

std::string current_failure() {
  try {
    throw;
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "something that is no exception of the standard library was thrown";
  }
}

}  // namespace rueda
