// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/model/masked_lm.h"

#include <ATen/Functions.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "examples/lib/model/bert_blocks.h"

namespace rueda::examples {
namespace {

namespace nn = torch::nn;

at::Tensor matrix_of(const std::vector<std::int64_t>& values, const LmBatch& batch) {
  return int64_tensor(values).view({batch.rows, batch.columns});
}

}  // namespace

// The levels that give the names `predictions.transform.dense` and `.LayerNorm`.
struct LmTransform : nn::Module {
  explicit LmTransform(const BertConfig& config)
      : dense(register_module("dense", nn::Linear(config.hidden_size, config.hidden_size))),
        norm(register_module("LayerNorm", layer_norm(config))) {}

  at::Tensor forward(const at::Tensor& hidden) { return norm(at::gelu(dense(hidden))); }

  nn::Linear dense;
  nn::LayerNorm norm;
};

struct LmPredictions : nn::Module {
  explicit LmPredictions(const BertConfig& config)
      : bias(register_parameter("bias", at::zeros({config.vocab_size}))),
        transform(register_module("transform", std::make_shared<LmTransform>(config))) {}

  at::Tensor bias;
  std::shared_ptr<LmTransform> transform;
};

struct MaskedLmHead : nn::Module {
  explicit MaskedLmHead(const BertConfig& config)
      : predictions(register_module("predictions", std::make_shared<LmPredictions>(config))) {
    draw_children(*this, config);
  }

  std::shared_ptr<LmPredictions> predictions;
};

BertInput to_input(const LmBatch& batch) {
  const at::Tensor columns = at::arange(batch.columns, at::TensorOptions().dtype(at::kLong));
  const at::Tensor ids = matrix_of(batch.input_ids, batch);
  return {ids, at::zeros_like(ids), columns.unsqueeze(0) < int64_tensor(batch.lengths).unsqueeze(1)};
}

at::Tensor labels_of(const LmBatch& batch) { return matrix_of(batch.labels, batch); }

BertForMaskedLM::BertForMaskedLM(const BertConfig& config)
    : BertWithHead(config), head_(register_module("cls", std::make_shared<MaskedLmHead>(config))) {}

at::Tensor BertForMaskedLM::predict(const at::Tensor& hidden) {
  LmPredictions& head = *head_->predictions;
  return at_least_float32(
      at::linear(head.transform->forward(hidden), encoder().word_embeddings(), head.bias));
}

std::vector<std::string> BertForMaskedLM::units() const {
  std::vector<std::string> names = BertWithHead::units();
  std::erase(names, "bert.embeddings");
  return names;
}

at::Tensor indices_of(const at::Tensor& chosen) { return chosen.flatten().nonzero().squeeze(1); }

at::Tensor rows_at(const at::Tensor& hidden, const at::Tensor& indices) {
  return hidden.flatten(0, 1).index_select(0, indices);
}

at::Tensor masked_lm_loss(BertForMaskedLM& model, const at::Tensor& hidden, const at::Tensor& labels,
                          const at::Tensor& indices) {
  const at::Tensor logits = model.predict(rows_at(hidden, indices));
  // The mean over nothing would be NaN, and poison the parameters.
  if (logits.size(0) == 0) return logits.sum();
  return at::cross_entropy_loss(logits, labels.flatten().index_select(0, indices));
}

}  // namespace rueda::examples
