// SPDX-License-Identifier: Apache-2.0
// Copies parameters, buffers and optimizer state of one rank to all.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "rueda/rueda.h"

namespace torch {
template <typename Key, typename Value>
class OrderedDict;
namespace nn {
class Module;
}  // namespace nn
namespace optim {
class Optimizer;
}  // namespace optim
}  // namespace torch

namespace rueda {

// Copies every tensor (parameter or buffer) of rank `root` to all ranks, in place. Collective among the
// ranks of the scope. `root` is a number in the job, and belongs to the scope. If names, types or shapes
// differ, every rank throws Mismatch with the same text, and no tensor changes.
void broadcast_parameters(const std::vector<std::pair<std::string, at::Tensor>>& named, Rank root,
                          const Scope& scope = {});
// The same for all parameters and buffers of a model: `broadcast_parameters(*model, 0)`.
void broadcast_parameters(const torch::nn::Module& model, Rank root, const Scope& scope = {});
// The same for module->named_parameters(), or module->named_buffers().
void broadcast_parameters(const torch::OrderedDict<std::string, at::Tensor>& named, Rank root,
                          const Scope& scope = {});

// Copies state and options of rank `root`'s optimizer to all ranks, such as a learning rate that a
// scheduler has changed. Collective. Throws Mismatch on every rank if numbers of groups or parameters
// differ. The state may be empty on any rank.
void broadcast_optimizer_state(torch::optim::Optimizer& optimizer, Rank root, const Scope& scope = {});

}  // namespace rueda
