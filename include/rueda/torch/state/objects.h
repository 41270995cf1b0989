// SPDX-License-Identifier: Apache-2.0
// Bytes, tensors of any shape, modules and optimizers of one rank, given to all.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "rueda/rueda.h"
#include "rueda/torch/state/stateful.h"

namespace rueda {

// Collective among the scope's ranks, all of them; every rank calls them in the same order. What cannot be
// saved on the root, or loaded elsewhere, is InvalidArgument on every rank, in the same words.

// Every rank's `bytes` become those of rank root (its number in the job).
void broadcast_object(std::string& bytes, Rank root, const Scope& scope = {});
// The same for what LibTorch can save. A tensor need not have the root's shape or dtype; a module has
// parameters of the root's names and shapes, and an optimizer its groups.
void broadcast_object(const Stateful& thing, Rank root, const Scope& scope = {});

// What each rank gives, by its place in the scope.
std::vector<std::string> allgather_object(const std::string& bytes, const Scope& scope = {});
// The tensors may differ in shape and dtype; those that come are this rank's own, without gradients.
std::vector<at::Tensor> allgather_object(const at::Tensor& tensor, const Scope& scope = {});

// broadcast_object under another name, which errors begin with.
void broadcast_state(const Stateful& thing, Rank root, const std::string& subject, const Scope& scope);
// What these are made of: the bytes that `make` returns on the root, on every rank. When it throws there,
// every rank throws InvalidArgument with `subject` and the reason. Under names that begin with `name`.
std::string broadcast_made(const std::function<std::string()>& make, Rank root, const std::string& name,
                           const std::string& subject, const Scope& scope);
// Runs `use` (which may be nothing) on every rank; when it throws on any, every rank throws InvalidArgument
// with `subject`, which ranks those are, and their reasons.
void all_use(const std::function<void()>& use, const std::string& name, const std::string& subject,
             const Scope& scope);

}  // namespace rueda
