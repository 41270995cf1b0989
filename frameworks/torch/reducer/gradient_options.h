// SPDX-License-Identifier: Apache-2.0
// The meaning of the options and parameters that a GradientReducer is made with.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "rueda/torch/reducer/distributed_options.h"

namespace rueda {

// Throws InvalidArgument for options that cannot mean anything, and if this rank is not in the scope.
const DistributedOptions& checked(const DistributedOptions& options, const Scope& scope);
// Throws InvalidArgument for a schedule in which ranks' parameters differ, or steps overlap: both are
// impossible if ranks have parts of one copy of the parameters.
const DistributedOptions& checked_for_shards(const DistributedOptions& options, const Runtime& runtime);
// Backward passes from one reduction of gradients to the next.
int passes_of(const DistributedOptions& options);
// Fixed where the options or the setting say so.
ReductionOrder order_of(const DistributedOptions& options, const Runtime& runtime);
// In one line, for ranks to compare.
std::string describe(const DistributedOptions& options, const Runtime& runtime);
// How each gradient is reduced: averaged over passes too.
Reduction reduction_of(const DistributedOptions& options, const Runtime& runtime);
// When the reductions of a step begin: as each gradient comes, when the last backward pass ends, or then.
enum class Begin { as_they_come, after_the_pass, in_synchronize };
Begin begin_of_reductions(const DistributedOptions& options, const Runtime& runtime);
// Whether the last backward pass of a step waits for them.
bool synchronizes_in_backward(const DistributedOptions& options);

// Two tensors that are one parameter have one.
const void* identity(const at::Tensor& tensor);
std::vector<at::Tensor> without_repetitions(const std::vector<at::Tensor>& parameters);
// The name of each parameter: as given, else "parameter.<index>". Of two names for one tensor the first
// counts. Throws InvalidArgument for names that are not clear.
std::vector<std::string> names_of(const std::vector<at::Tensor>& parameters,
                                  const DistributedOptions& options, Rank rank);

// Of each parameter, the number of its group; nothing: it is in none. Throws InvalidArgument for groups that
// are not clear.
std::vector<std::optional<std::size_t>> groups_of(const std::vector<at::Tensor>& parameters,
                                                  const DistributedOptions& options, Rank rank);

// The hook that reduces the gradient of a parameter.
struct ChosenHook {
  std::string words;  // for ranks to compare; empty: it travels whole
  MakeHook make;
};
// Of each parameter. Throws InvalidArgument for a tensor that is none of the parameters.
std::vector<ChosenHook> hooks_of(const std::vector<at::Tensor>& parameters, const DistributedOptions& options,
                                 Rank rank);

}  // namespace rueda
