// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/model/bert_model.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <limits>
#include <stdexcept>

#include "examples/lib/model/bert_blocks.h"

namespace rueda::examples {
namespace {

namespace nn = torch::nn;

}  // namespace

at::Tensor int64_tensor(const std::vector<std::int64_t>& values) {
  return at::tensor(values, at::TensorOptions().dtype(at::kLong));
}

// Two linear layers of a transformer block share this end: project, drop out, add the input, normalize.
struct BertOutput : nn::Module {
  BertOutput(const BertConfig& config, std::int64_t from)
      : dense(register_module("dense", nn::Linear(from, config.hidden_size))),
        norm(register_module("LayerNorm", layer_norm(config))),
        dropout(config.hidden_dropout_prob) {
    register_module("dropout", dropout);
  }

  at::Tensor forward(const at::Tensor& hidden, const at::Tensor& residual) {
    return norm(dropout(dense(hidden)) + residual);
  }

  nn::Linear dense;
  nn::LayerNorm norm;
  nn::Dropout dropout;
};

struct BertSelfAttention : nn::Module {
  explicit BertSelfAttention(const BertConfig& config)
      : heads(config.num_attention_heads),
        dropout(config.attention_probs_dropout_prob),
        query(register_module("query", nn::Linear(config.hidden_size, config.hidden_size))),
        key(register_module("key", nn::Linear(config.hidden_size, config.hidden_size))),
        value(register_module("value", nn::Linear(config.hidden_size, config.hidden_size))) {}

  at::Tensor forward(const at::Tensor& hidden, const at::Tensor& mask) {
    const auto per_head = [&](const at::Tensor& projected) {  // [rows, heads, columns, size of a head]
      return projected.view({hidden.size(0), hidden.size(1), heads, -1}).transpose(1, 2);
    };
    const at::Tensor context =
        at::scaled_dot_product_attention(per_head(query(hidden)), per_head(key(hidden)),
                                         per_head(value(hidden)), mask, is_training() ? dropout : 0.0);
    return context.transpose(1, 2).reshape(hidden.sizes());
  }

  std::int64_t heads;
  double dropout;
  nn::Linear query;
  nn::Linear key;
  nn::Linear value;
};

// The two levels that give the names `attention.self` and `attention.output`.
struct BertAttention : nn::Module {
  explicit BertAttention(const BertConfig& config)
      : self(register_module("self", std::make_shared<BertSelfAttention>(config))),
        output(register_module("output", std::make_shared<BertOutput>(config, config.hidden_size))) {}

  at::Tensor forward(const at::Tensor& hidden, const at::Tensor& mask) {
    return output->forward(self->forward(hidden, mask), hidden);
  }

  std::shared_ptr<BertSelfAttention> self;
  std::shared_ptr<BertOutput> output;
};

struct BertIntermediate : nn::Module {
  explicit BertIntermediate(const BertConfig& config)
      : dense(register_module("dense", nn::Linear(config.hidden_size, config.intermediate_size))) {}

  nn::Linear dense;
};

struct BertEmbeddings : nn::Module {
  explicit BertEmbeddings(const BertConfig& config)
      : words(register_module("word_embeddings", nn::Embedding(config.vocab_size, config.hidden_size))),
        positions(register_module("position_embeddings",
                                  nn::Embedding(config.max_position_embeddings, config.hidden_size))),
        types(register_module("token_type_embeddings",
                              nn::Embedding(config.type_vocab_size, config.hidden_size))),
        norm(register_module("LayerNorm", layer_norm(config))),
        dropout(register_module("dropout", nn::Dropout(config.hidden_dropout_prob))) {}

  at::Tensor forward(const BertInput& input) {
    const std::int64_t columns = input.input_ids.size(1);
    return dropout(
        norm(words(input.input_ids) + types(input.token_types) + positions->weight.slice(0, 0, columns)));
  }

  nn::Embedding words;
  nn::Embedding positions;
  nn::Embedding types;
  nn::LayerNorm norm;
  nn::Dropout dropout;
};

struct BertLayer : nn::Module {
  explicit BertLayer(const BertConfig& config)
      : attention(register_module("attention", std::make_shared<BertAttention>(config))),
        intermediate(register_module("intermediate", std::make_shared<BertIntermediate>(config))),
        output(register_module("output", std::make_shared<BertOutput>(config, config.intermediate_size))) {}

  at::Tensor forward(const at::Tensor& hidden, const at::Tensor& mask) {
    const at::Tensor attended = attention->forward(hidden, mask);
    return output->forward(at::gelu(intermediate->dense(attended)), attended);
  }

  std::shared_ptr<BertAttention> attention;
  std::shared_ptr<BertIntermediate> intermediate;
  std::shared_ptr<BertOutput> output;
};

// The vector of a row's first token, [CLS], made the row's.
struct BertPooler : nn::Module {
  explicit BertPooler(const BertConfig& config)
      : dense(register_module("dense", nn::Linear(config.hidden_size, config.hidden_size))) {}

  nn::Linear dense;
};

BertInput to_input(const PaddedBatch& batch) {
  const at::Tensor columns = at::arange(batch.columns, at::TensorOptions().dtype(at::kLong));
  return {int64_tensor(batch.input_ids).view({batch.rows, batch.columns}),
          int64_tensor(batch.token_types).view({batch.rows, batch.columns}),
          columns.unsqueeze(0) < int64_tensor(batch.lengths).unsqueeze(1)};
}

BertInput moved(const BertInput& input, at::Device device) {
  return {input.input_ids.to(device), input.token_types.to(device), input.valid.to(device)};
}

BertModel::BertModel(const BertConfig& config, bool with_pooler)
    : embeddings_(register_module("embeddings", std::make_shared<BertEmbeddings>(config))) {
  nn::ModuleList list;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    layers_.push_back(std::make_shared<BertLayer>(config));
    list->push_back(layers_.back());
  }
  register_module("encoder", std::make_shared<nn::Module>())->register_module("layer", list);
  if (with_pooler) pooler_ = register_module("pooler", std::make_shared<BertPooler>(config));
  draw_children(*this, config);
}

at::Tensor BertModel::forward(const BertInput& input) {
  at::Tensor hidden = runner_(*embeddings_, [&] { return embeddings_->forward(input); });
  // Added to the scores of a query with all keys; made once for all layers.
  const at::Tensor mask =
      at::zeros(input.valid.sizes(), hidden.options().requires_grad(false))
          .masked_fill_(input.valid.logical_not(), -std::numeric_limits<double>::infinity())
          .unsqueeze(1)
          .unsqueeze(1);
  for (const auto& layer : layers_) hidden = runner_(*layer, [&] { return layer->forward(hidden, mask); });
  return hidden;
}

at::Tensor BertModel::pool(const at::Tensor& hidden) {
  if (!pooler_) throw std::logic_error("this BertModel was made without a pooler");
  return at::tanh(pooler_->dense(hidden.select(1, 0)));
}

const at::Tensor& BertModel::word_embeddings() const { return embeddings_->words->weight; }

BertWithHead::BertWithHead(const BertConfig& config, bool with_pooler)
    : config_(config), encoder_(register_module("bert", std::make_shared<BertModel>(config, with_pooler))) {}

std::vector<std::string> BertWithHead::units() const {
  std::vector<std::string> names{"bert.embeddings"};
  for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i)
    names.push_back("bert.encoder.layer." + std::to_string(i));
  return names;
}

BertForQuestionAnswering::BertForQuestionAnswering(const BertConfig& config) : BertWithHead(config) {
  const auto head = std::make_shared<nn::LinearImpl>(config.hidden_size, 2);
  head_ = register_module("qa_outputs", head);
  draw_linear(*head, config);
}

AnswerLogits on_host(const AnswerLogits& logits) { return {logits.start.cpu(), logits.end.cpu()}; }

AnswerLogits hide_padding(const at::Tensor& positions, const at::Tensor& valid) {
  const at::Tensor logits =
      positions.masked_fill(valid.logical_not().unsqueeze(2), -std::numeric_limits<double>::infinity());
  return {logits.select(2, 0), logits.select(2, 1)};
}

AnswerLogits BertForQuestionAnswering::forward(const BertInput& input) {
  return hide_padding(at_least_float32(head_->as<nn::LinearImpl>()->forward(encode(input))), input.valid);
}

at::Tensor answer_losses(const AnswerLogits& logits, const PaddedBatch& batch) {
  const auto loss = [](const at::Tensor& of, const std::vector<std::int64_t>& positions) {
    return at::cross_entropy_loss(of, int64_tensor(positions), {}, at::Reduction::None);
  };
  return (loss(logits.start, batch.starts) + loss(logits.end, batch.ends)) / 2;
}

at::Tensor answer_loss(const AnswerLogits& logits, const PaddedBatch& batch) {
  return (at::cross_entropy_loss(logits.start, int64_tensor(batch.starts)) +
          at::cross_entropy_loss(logits.end, int64_tensor(batch.ends))) /
         2;
}

}  // namespace rueda::examples
