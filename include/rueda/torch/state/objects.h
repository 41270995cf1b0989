// SPDX-License-Identifier: Apache-2.0
// Copies bytes, tensors of any shape, modules and optimizers of one rank to all.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "rueda/rueda.h"
#include "rueda/torch/state/stateful.h"

namespace rueda {

// Collective among the ranks of the scope, which call these functions in the same order. If an object
// cannot be saved on the root or loaded elsewhere, every rank throws InvalidArgument with the same text.

// Copies `bytes` of rank `root` (its number in the job) to every rank.
void broadcast_object(std::string& bytes, Rank root, const Scope& scope = {});
// The same for a tensor, a module or an optimizer. A tensor gets the shape and dtype of the root. A module
// needs parameters of the root's names and shapes. An optimizer needs the root's groups.
void broadcast_object(const Stateful& thing, Rank root, const Scope& scope = {});

// Returns the bytes of each rank, in the order of the scope.
std::vector<std::string> allgather_object(const std::string& bytes, const Scope& scope = {});
// Returns the tensors of each rank. Shapes and dtypes may differ. The tensors are new, and have no
// gradients.
std::vector<at::Tensor> allgather_object(const at::Tensor& tensor, const Scope& scope = {});

// The same as broadcast_object. Errors begin with `subject`.
void broadcast_state(const Stateful& thing, Rank root, const std::string& subject, const Scope& scope);
// Calls `make` on the root, and returns its bytes on every rank. If `make` throws, every rank throws
// InvalidArgument with `subject` and the reason. The names of its operations begin with `name`.
std::string broadcast_made(const std::function<std::string()>& make, Rank root, const std::string& name,
                           const std::string& subject, const Scope& scope);
// Runs `use` on every rank, unless it is empty. If it throws on some ranks, every rank throws
// InvalidArgument with `subject`, these ranks and their reasons.
void all_use(const std::function<void()>& use, const std::string& name, const std::string& subject,
             const Scope& scope);

}  // namespace rueda
