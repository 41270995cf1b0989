// SPDX-License-Identifier: Apache-2.0
// BERT that answers Natural Questions: the position and the type of the answer.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "examples/lib/model/bert_model.h"

namespace rueda::examples {

// In the order of the logits.
inline constexpr std::array<std::string_view, 5> kAnswerTypes = {"short", "long", "yes", "no", "unknown"};

struct NaturalQuestionsLogits {
  AnswerLogits answer;
  at::Tensor type;  // [rows, 5]
};

// The encoder with its pooler and two heads under Hugging Face's names: `qa_outputs`, as
// BertForQuestionAnswering has it, for start and end, and `classifier`, as BertForSequenceClassification has
// it, for the type; each of the two classes reads its part of a checkpoint. Used by one thread at a time.
class BertForNaturalQuestions : public BertWithHead {
 public:
  explicit BertForNaturalQuestions(const BertConfig& config);

  NaturalQuestionsLogits forward(const BertInput& input);  // in float32, or float64 for a float64 model
  std::string architecture() const override { return "BertForNaturalQuestions"; }

 private:
  std::shared_ptr<torch::nn::Module> answer_head_;
  std::shared_ptr<torch::nn::Module> type_head_;
  std::shared_ptr<torch::nn::Module> dropout_;
};

// Mean cross entropies over the rows.
struct NaturalQuestionsLosses {
  at::Tensor start;
  at::Tensor end;
  at::Tensor type;
  at::Tensor total() const { return start + end + type; }
};

// `starts`, `ends` and `types` are int64 [rows]: positions, and indices in kAnswerTypes. A position may be
// kNoLabel (masking.h) where the row has none; the means are over the others, 0 if there are none.
NaturalQuestionsLosses natural_questions_losses(const NaturalQuestionsLogits& logits,
                                                const at::Tensor& starts, const at::Tensor& ends,
                                                const at::Tensor& types);

}  // namespace rueda::examples
