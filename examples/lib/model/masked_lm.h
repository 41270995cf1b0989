// SPDX-License-Identifier: Apache-2.0
// BERT that guesses masked tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "examples/lib/data/masking.h"
#include "examples/lib/model/bert_model.h"

namespace rueda::examples {

// Copy the numbers; `batch` is free afterwards. All tokens are of the first type.
BertInput to_input(const LmBatch& batch);
at::Tensor labels_of(const LmBatch& batch);  // int64 [rows, columns]

struct MaskedLmHead;

// The encoder and the head `cls.predictions`, whose decoder is the matrix of the word embeddings: one
// parameter, trained by both uses. Used by one thread at a time; without gradients by several.
class BertForMaskedLM : public BertWithHead {
 public:
  explicit BertForMaskedLM(const BertConfig& config);

  // How likely each token of the vocabulary stands where `hidden`, [..., hidden_size], is of: logits, [...,
  // vocab_size], in float32, or float64 for a float64 model. Most of a batch's time goes here when the
  // vocabulary is large, so give it the vectors that matter only.
  at::Tensor predict(const at::Tensor& hidden);
  at::Tensor forward(const BertInput& input) { return predict(encode(input)); }

  std::string architecture() const override { return "BertForMaskedLM"; }
  // Without the embeddings, which the head uses too.
  std::vector<std::string> units() const override;

 private:
  std::shared_ptr<MaskedLmHead> head_;
};

// The positions at which `chosen`, bool [rows, columns], is true, counted row after row: int64 [n]. The host
// needs their number and would wait for a device: made before tensors are moved there.
at::Tensor indices_of(const at::Tensor& chosen);
// The vectors of `hidden`, [rows, columns, size], at these indices: [n, size].
at::Tensor rows_at(const at::Tensor& hidden, const at::Tensor& indices);

// The mean cross entropy over the tokens at `indices`, by their labels, int64 [rows, columns]; 0, with
// gradients of 0, if there are none.
at::Tensor masked_lm_loss(BertForMaskedLM& model, const at::Tensor& hidden, const at::Tensor& labels,
                          const at::Tensor& indices);

}  // namespace rueda::examples
