// SPDX-License-Identifier: Apache-2.0
// BERT as LibTorch modules whose parameter names are Hugging Face's, with a head that marks answers in the
// text.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "examples/lib/data/batches.h"
#include "examples/lib/model/bert_config.h"
#include "frameworks/torch/sharded_units.h"

namespace rueda::examples {

struct BertInput {
  at::Tensor input_ids;    // int64 [rows, columns]
  at::Tensor token_types;  // int64 [rows, columns]
  at::Tensor valid;        // bool [rows, columns], false where a row is padded
};

// Copies the numbers; `batch` is free afterwards.
BertInput to_input(const PaddedBatch& batch);

struct BertEmbeddings;
struct BertLayer;

// The encoder: from token ids to one vector per token. Padding never changes the vectors of other tokens.
// Used by one thread at a time, as any torch module.
class BertModel : public torch::nn::Module {
 public:
  // Random parameters, as Hugging Face draws them: normal(0, initializer_range), from torch's default
  // generator.
  explicit BertModel(const BertConfig& config);

  at::Tensor forward(const BertInput& input);  // [rows, columns, hidden_size]
  // What the embeddings and each layer run by, so that they can be units of a ShardedModel.
  void set_runner(UnitRunner runner) { runner_ = std::move(runner); }

 private:
  UnitRunner runner_;
  std::shared_ptr<BertEmbeddings> embeddings_;
  std::vector<std::shared_ptr<BertLayer>> layers_;
};

// Per position, how well the answer starts and ends there: [rows, columns], minus infinity at padding.
struct AnswerLogits {
  at::Tensor start;
  at::Tensor end;
};

// The encoder and the head `qa_outputs`. Used by one thread at a time.
class BertForQuestionAnswering : public torch::nn::Module {
 public:
  explicit BertForQuestionAnswering(const BertConfig& config);

  AnswerLogits forward(const BertInput& input);  // in float32, or float64 for a float64 model
  at::Tensor encode(const BertInput& input) { return encoder_->forward(input); }

  // The parts that set_runner() is for, by their names: of a ShardedModel.
  std::vector<std::string> units() const;
  void set_runner(UnitRunner runner) { encoder_->set_runner(std::move(runner)); }

  const BertConfig& config() const { return config_; }

 private:
  BertConfig config_;
  std::shared_ptr<BertModel> encoder_;
  std::shared_ptr<torch::nn::Module> head_;
};

// Of each row, [rows]: the cross entropy against the positions in `batch`, mean of start and end.
at::Tensor answer_losses(const AnswerLogits& logits, const PaddedBatch& batch);
// Their mean.
at::Tensor answer_loss(const AnswerLogits& logits, const PaddedBatch& batch);

}  // namespace rueda::examples
