// SPDX-License-Identifier: Apache-2.0
// What the ranks of an operation of c10d must have alike, though core's requests do not show it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "core/control/messages/call_in_words.h"
#include "core/control/messages/request.h"

namespace rueda {

// Each puts its part into the request's signature. Ranks with different ones get Mismatch.
void sign(Request& request, c10d::OpType operation);
void sign(Request& request, at::ScalarType type);
void sign(Request& request, const c10d::ReduceOp& op);
// Notes that torch has made the tensor from a complex one, as pairs of real numbers. Only words tell of it:
// another rank may have made the pairs itself.
void sign_pairs(Request& request, const at::Tensor& tensor);
// Of tensors that all ranks know: their elements.
void sign_sizes(Request& request, std::span<const std::int64_t> sizes);
void sign_sizes(Request& request, std::span<const at::Tensor> tensors);

// The call of a signed request, for the words of errors. Tensors of some operations travel without their
// shape: they have one dimension here.
CallInWords call_of(const Request& request);

}  // namespace rueda
