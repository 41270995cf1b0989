// SPDX-License-Identifier: Apache-2.0
// For tests of models: a BERT of a few thousand parameters, and a batch for it.
#pragma once

#include <ATen/Functions.h>

#include "examples/lib/model/bert_model.h"

namespace rueda::examples {

inline BertConfig small_bert(std::int64_t layers = 2) {
  return {.vocab_size = 30,
          .hidden_size = 8,
          .num_hidden_layers = layers,
          .num_attention_heads = 2,
          .intermediate_size = 16,
          .max_position_embeddings = 16};
}

// Three rows of 7, 4 and 2 tokens.
inline BertInput small_input() {
  const at::Tensor lengths = at::tensor({7, 4, 2}).unsqueeze(1);
  const at::Tensor valid = at::arange(7).unsqueeze(0) < lengths;
  const at::Tensor ids = at::arange(21).view({3, 7}) + 5;
  return {ids * valid, at::zeros({3, 7}, at::kLong), valid};
}

}  // namespace rueda::examples
