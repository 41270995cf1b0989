// SPDX-License-Identifier: Apache-2.0
// Checks of c10d's arguments for operations. They throw c10::ValueError.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace rueda {

// Dense tensors, all of the host or all on one device.
void check_together(at::TensorList tensors, const char* operation);
// The only tensor, a dense one.
const at::Tensor& only(const std::vector<at::Tensor>& tensors, const char* operation);
// The only list, which has a tensor for each of `size` ranks, where `tensor` is.
const std::vector<at::Tensor>& only_list(const std::vector<std::vector<at::Tensor>>& lists,
                                         const at::Tensor& tensor, int size, const char* operation);
// An output for each input, all of the host or all on one device.
void check_pairs(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs,
                 const char* operation);
void check_root(std::int64_t root, int size, const char* operation);
// Of a message.
void check_tag(int tag, const char* operation);
void check_same_type(const at::Tensor& tensor, const at::Tensor& other, const char* operation);
// The tensor of a list that this rank itself fills, or takes.
void check_size_of_own(const at::Tensor& of_list, const at::Tensor& tensor, int rank, const char* operation);

}  // namespace rueda
