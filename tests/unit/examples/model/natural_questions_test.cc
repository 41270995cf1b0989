// SPDX-License-Identifier: Apache-2.0
// The heads for Natural Questions: shapes, padding, and the sum of three cross entropies.
#include "examples/lib/model/natural_questions.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "examples/lib/data/masking.h"
#include "tests/unit/examples/model/small_bert.h"

namespace rueda::examples {
namespace {

using testing::ElementsAre;

at::Tensor positions(std::initializer_list<std::int64_t> values) {
  return at::tensor(std::vector<std::int64_t>(values));
}

TEST(NaturalQuestions, OneTypeARowAndNoAnswerInPadding) {
  BertForNaturalQuestions model(small_bert());
  model.eval();
  const NaturalQuestionsLogits logits = model.forward(small_input());
  EXPECT_THAT(logits.type.sizes().vec(), ElementsAre(3, 5));
  EXPECT_THAT(logits.answer.start.sizes().vec(), ElementsAre(3, 7));
  EXPECT_TRUE(std::isinf(logits.answer.end[2][2].item<double>()));
  EXPECT_FALSE(std::isinf(logits.answer.end[2][1].item<double>()));
}

TEST(NaturalQuestions, LossesAreMeansOverTheRowsThatHaveALabel) {
  BertForNaturalQuestions model(small_bert());
  model.eval();
  const NaturalQuestionsLogits logits = model.forward(small_input());
  const auto losses = natural_questions_losses(logits, positions({0, 3, kNoLabel}),
                                               positions({6, 3, kNoLabel}), positions({0, 4, 2}));
  const at::Tensor start = at::log_softmax(logits.answer.start, 1);
  const at::Tensor type = at::log_softmax(logits.type, 1);
  EXPECT_NEAR(losses.start.item<double>(), -(start[0][0] + start[1][3]).item<double>() / 2, 1e-6);
  EXPECT_NEAR(losses.type.item<double>(), -(type[0][0] + type[1][4] + type[2][2]).item<double>() / 3, 1e-6);
  EXPECT_NEAR(losses.total().item<double>(), (losses.start + losses.end + losses.type).item<double>(), 1e-6);
}

TEST(NaturalQuestions, WithoutAnyAnswerEveryParameterHasAFiniteGradient) {
  BertForNaturalQuestions model(small_bert());
  const at::Tensor none = at::full({3}, kNoLabel, at::kLong);
  const auto losses =
      natural_questions_losses(model.forward(small_input()), none, none, positions({4, 4, 4}));
  EXPECT_EQ(losses.start.item<double>() + losses.end.item<double>(), 0);
  losses.total().backward();
  for (const auto& item : model.named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_TRUE(at::isfinite(item.value().grad()).all().item<bool>()) << item.key();
  }
}

}  // namespace
}  // namespace rueda::examples
