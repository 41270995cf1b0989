// SPDX-License-Identifier: Apache-2.0
// Tensors in the safetensors format.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

#include "core/base/files/safetensors.h"

namespace rueda {

// Returns the name of a type in the format. Returns an empty name if the format has none.
std::string_view stored_name(at::ScalarType type);

// Returns an entry that points into `tensor`, which is contiguous, in the host's memory and of a type with a
// name.
SafetensorEntry stored_entry(const std::string& name, const at::Tensor& tensor);

// Returns a copy of an entry. Throws InvalidArgument for a type that LibTorch does not have.
at::Tensor tensor_of(const SafetensorEntry& entry);

}  // namespace rueda
