// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/model/bert_blocks.h"

#include <torch/nn/modules/embedding.h>

namespace rueda::examples {

namespace nn = torch::nn;

nn::LayerNorm layer_norm(const BertConfig& config) {
  return nn::LayerNorm(nn::LayerNormOptions({config.hidden_size}).eps(config.layer_norm_eps));
}

void draw_linear(nn::LinearImpl& linear, const BertConfig& config) {
  const at::NoGradGuard no_grad;
  linear.weight.normal_(0, config.initializer_range);
  linear.bias.zero_();
}

void draw_children(nn::Module& parent, const BertConfig& config) {
  const at::NoGradGuard no_grad;
  for (const auto& item : parent.named_modules("", /*include_self=*/false)) {
    if (auto* linear = item.value()->as<nn::LinearImpl>()) {
      draw_linear(*linear, config);
    } else if (auto* embedding = item.value()->as<nn::EmbeddingImpl>()) {
      embedding->weight.normal_(0, config.initializer_range);
      if (item.key().ends_with("word_embeddings")) embedding->weight[config.pad_token_id].zero_();
    }
  }
}

at::Tensor at_least_float32(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? tensor : tensor.to(at::kFloat);
}

}  // namespace rueda::examples
