// SPDX-License-Identifier: Apache-2.0
// The building blocks of the encoder and the heads, and the initial values of their parameters.
#pragma once

#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "examples/lib/model/bert_config.h"

namespace rueda::examples {

torch::nn::LayerNorm layer_norm(const BertConfig& config);

// Hugging Face's random start: weights normal(0, initializer_range) from torch's default generator, biases
// zero; layer norms stay 1 and 0.
void draw_linear(torch::nn::LinearImpl& linear, const BertConfig& config);

// The same for all below `parent`; the padding token's embedding is zero.
void draw_children(torch::nn::Module& parent, const BertConfig& config);

// The type in which losses are computed: float32, or float64 for a float64 model.
at::Tensor at_least_float32(const at::Tensor& tensor);

}  // namespace rueda::examples
