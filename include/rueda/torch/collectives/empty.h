// SPDX-License-Identifier: Apache-2.0
// Makes tensors on which the ranks of a host work without a copy.
#pragma once

#include <ATen/core/Tensor.h>

#include "rueda/rueda.h"

namespace rueda {

// Returns a tensor of zeros in memory of rueda::allocate (rueda/rueda.h). If the tensor of every rank of a
// host lies there, an allreduce works in place. In all else it is an ordinary tensor, also after shutdown().
// An allocation takes some milliseconds per MiB, so make the tensor once. Throws BackendError if there is
// too little memory. Throws InvalidArgument for negative sizes and for types that Rueda does not move.
at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat,
                 Runtime& runtime = default_runtime());

}  // namespace rueda
