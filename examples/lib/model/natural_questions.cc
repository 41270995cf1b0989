// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/model/natural_questions.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "examples/lib/data/masking.h"
#include "examples/lib/model/bert_blocks.h"

namespace rueda::examples {
namespace {

namespace nn = torch::nn;

// How many have a label need not be known, so that nobody waits for a device. 0 where there are none: the
// mean over nothing would be NaN.
at::Tensor labelled_mean(const at::Tensor& logits, const at::Tensor& labels) {
  const at::Tensor sum = at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum, kNoLabel);
  return sum / labels.ne(kNoLabel).sum().clamp_min(1);
}

}  // namespace

BertForNaturalQuestions::BertForNaturalQuestions(const BertConfig& config)
    : BertWithHead(config, /*with_pooler=*/true),
      dropout_(register_module("dropout", std::make_shared<nn::DropoutImpl>(config.hidden_dropout_prob))) {
  const auto answer = std::make_shared<nn::LinearImpl>(config.hidden_size, 2);
  answer_head_ = register_module("qa_outputs", answer);
  draw_linear(*answer, config);
  const auto type =
      std::make_shared<nn::LinearImpl>(config.hidden_size, static_cast<std::int64_t>(kAnswerTypes.size()));
  type_head_ = register_module("classifier", type);
  draw_linear(*type, config);
}

NaturalQuestionsLogits BertForNaturalQuestions::forward(const BertInput& input) {
  const at::Tensor hidden = encode(input);
  const at::Tensor positions = at_least_float32(answer_head_->as<nn::LinearImpl>()->forward(hidden));
  const at::Tensor pooled = dropout_->as<nn::DropoutImpl>()->forward(encoder().pool(hidden));
  return {.answer = hide_padding(positions, input.valid),
          .type = at_least_float32(type_head_->as<nn::LinearImpl>()->forward(pooled))};
}

NaturalQuestionsLosses natural_questions_losses(const NaturalQuestionsLogits& logits,
                                                const at::Tensor& starts, const at::Tensor& ends,
                                                const at::Tensor& types) {
  return {.start = labelled_mean(logits.answer.start, starts),
          .end = labelled_mean(logits.answer.end, ends),
          .type = labelled_mean(logits.type, types)};
}

}  // namespace rueda::examples
