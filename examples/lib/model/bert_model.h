// SPDX-License-Identifier: Apache-2.0
// BERT as LibTorch modules with Hugging Face's parameter names: the encoder, the common base of all heads on
// it, and the head that marks answers in the text.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "examples/lib/data/batches.h"
#include "examples/lib/model/bert_config.h"
#include "rueda/torch/sharding/unit_runner.h"

namespace rueda::examples {

struct BertInput {
  at::Tensor input_ids;    // int64 [rows, columns]
  at::Tensor token_types;  // int64 [rows, columns]
  at::Tensor valid;        // bool [rows, columns], false where a row is padded
};

// Copies the numbers.
at::Tensor int64_tensor(const std::vector<std::int64_t>& values);
// Copies the numbers; `batch` is free afterwards.
BertInput to_input(const PaddedBatch& batch);
// The same there.
BertInput moved(const BertInput& input, at::Device device);

struct BertEmbeddings;
struct BertLayer;
struct BertPooler;

// The encoder: from token ids to one vector per token. Padding never changes the vectors of other tokens.
// Used by one thread at a time, as any torch module.
class BertModel : public torch::nn::Module {
 public:
  // Random parameters, as Hugging Face draws them: normal(0, initializer_range), from torch's default
  // generator.
  // `with_pooler`: with the layer that pool() needs.
  explicit BertModel(const BertConfig& config, bool with_pooler = false);

  at::Tensor forward(const BertInput& input);  // [rows, columns, hidden_size]
  // One vector for each whole row, [rows, hidden_size], from the result of forward(): the vector of its first
  // token, through a layer and tanh. Throws std::logic_error without a pooler.
  at::Tensor pool(const at::Tensor& hidden);
  // [vocab_size, hidden_size]: the weights that a masked-LM decoder is tied to.
  const at::Tensor& word_embeddings() const;
  // The embeddings and each layer run through this runner, so that they can be units of a ShardedModel.
  void set_runner(UnitRunner runner) { runner_ = std::move(runner); }

 private:
  UnitRunner runner_;
  std::shared_ptr<BertEmbeddings> embeddings_;
  std::vector<std::shared_ptr<BertLayer>> layers_;
  std::shared_ptr<BertPooler> pooler_;
};

// An encoder named `bert` under a head: the interface that loading, saving and sharding need of any such
// model. Used by one thread at a time.
class BertWithHead : public torch::nn::Module {
 public:
  const BertConfig& config() const { return config_; }
  BertModel& encoder() { return *encoder_; }
  const BertModel& encoder() const { return *encoder_; }
  at::Tensor encode(const BertInput& input) { return encoder_->forward(input); }
  at::Device device() const { return encoder_->word_embeddings().device(); }

  // The name of the class in config.json: Hugging Face's if it has one.
  virtual std::string architecture() const = 0;
  // The parts that set_runner() is for, by their names: of a ShardedModel.
  virtual std::vector<std::string> units() const;
  void set_runner(UnitRunner runner) { encoder_->set_runner(std::move(runner)); }

 protected:
  explicit BertWithHead(const BertConfig& config, bool with_pooler = false);

 private:
  BertConfig config_;
  std::shared_ptr<BertModel> encoder_;
};

// Per position, how well the answer starts and ends there: [rows, columns], minus infinity at padding.
struct AnswerLogits {
  at::Tensor start;
  at::Tensor end;
};

// The same in the host's memory, if a device has computed them.
AnswerLogits on_host(const AnswerLogits& logits);

// Splits [rows, columns, 2].
AnswerLogits hide_padding(const at::Tensor& positions, const at::Tensor& valid);

// The encoder and the head `qa_outputs`. Used by one thread at a time.
class BertForQuestionAnswering : public BertWithHead {
 public:
  explicit BertForQuestionAnswering(const BertConfig& config);

  AnswerLogits forward(const BertInput& input);  // in float32, or float64 for a float64 model
  std::string architecture() const override { return "BertForQuestionAnswering"; }

 private:
  std::shared_ptr<torch::nn::Module> head_;
};

// Of each row, [rows]: the cross entropy against the positions in `batch`, mean of start and end.
at::Tensor answer_losses(const AnswerLogits& logits, const PaddedBatch& batch);
// Their mean.
at::Tensor answer_loss(const AnswerLogits& logits, const PaddedBatch& batch);

}  // namespace rueda::examples
