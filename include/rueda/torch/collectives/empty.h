// SPDX-License-Identifier: Apache-2.0
// Tensors that the ranks of a host work on without a copy.
#pragma once

#include <ATen/core/Tensor.h>

#include "rueda/rueda.h"

namespace rueda {

// A tensor of zeroes in memory of rueda::allocate (rueda/rueda.h): where every rank of a host allreduces such
// a tensor, it is reduced where it lies. An ordinary tensor in all else, also after shutdown(). For tensors
// that live long: getting one costs some milliseconds a MiB. Throws BackendError where there is too little
// memory, InvalidArgument for sizes that are negative and types that Rueda does not move.
at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat,
                 Runtime& runtime = default_runtime());

}  // namespace rueda
