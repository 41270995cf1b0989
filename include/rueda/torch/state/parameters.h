// SPDX-License-Identifier: Apache-2.0
// The same start on every rank: parameters, buffers and optimizer state of one rank, given to all.
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

// Every tensor (parameter or buffer) gets rank root's values, in place. Collective among the scope's ranks,
// of which root (its number in the job) is one. When the ranks' names, types or shapes differ, every rank
// throws Mismatch, in the same words, and no tensor has changed.
void broadcast_parameters(const std::vector<std::pair<std::string, at::Tensor>>& named, Rank root,
                          const Scope& scope = {});
// All parameters and buffers of a model: `broadcast_parameters(*model, 0)`.
void broadcast_parameters(const torch::nn::Module& model, Rank root, const Scope& scope = {});
// Only its module->named_parameters(), or its module->named_buffers().
void broadcast_parameters(const torch::OrderedDict<std::string, at::Tensor>& named, Rank root,
                          const Scope& scope = {});

// Every rank's optimizer gets the state of rank root's, and its options (such as a learning rate that a
// scheduler has changed). Collective; the optimizers have equally many groups and parameters, else every rank
// throws Mismatch. States that are empty, on the root or elsewhere, are fine.
void broadcast_optimizer_state(torch::optim::Optimizer& optimizer, Rank root, const Scope& scope = {});

}  // namespace rueda
