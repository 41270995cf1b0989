// SPDX-License-Identifier: Apache-2.0
// Tensors by name in a safetensors file.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace rueda::examples {

// Creates the folder. Throws std::runtime_error naming the file.
void write_tensors(const std::filesystem::path& file,
                   const std::vector<std::pair<std::string, at::Tensor>>& tensors);

// Copies of all. Throws std::runtime_error naming the file and its fault.
std::map<std::string, at::Tensor> read_tensors(const std::filesystem::path& file);

}  // namespace rueda::examples
