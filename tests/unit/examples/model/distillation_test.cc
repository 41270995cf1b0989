// SPDX-License-Identifier: Apache-2.0
// The three losses against their formulas, and the student made of every second layer.
#include "examples/lib/model/distillation.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/scratch_folder.h"
#include "tests/unit/examples/model/small_bert.h"

namespace rueda::examples {
namespace {

using testing::AllOf;
using testing::HasSubstr;

at::Tensor small_labels() {
  at::Tensor labels = at::full({3, 7}, kNoLabel, at::kLong);
  labels[0][2] = 11;
  labels[1][3] = 4;
  return labels;
}

DistillationTargets targets_of(const at::Tensor& labels) {
  return {labels, indices_of(labels.ne(kNoLabel)), indices_of(small_input().valid)};
}

class Distillation : public testing::Test {
 protected:
  Distillation() {
    teacher_.eval();
    student_.eval();
  }
  DistillationLosses losses(const DistillationOptions& options, const at::Tensor& labels = small_labels()) {
    return distillation_losses(student_, teacher_, small_input(), targets_of(labels), options);
  }

  BertForMaskedLM teacher_{small_bert(3)};
  BertForMaskedLM student_{small_bert(2)};
};

TEST_F(Distillation, LossesAreTheirFormulasTokenByToken) {
  const DistillationOptions options{.alpha_mlm = 0.5, .alpha_ce = 3, .alpha_cos = 0.25, .temperature = 4};
  const BertInput input = small_input();
  const at::Tensor student = at::softmax(student_.forward(input) / 4, 2);
  const at::Tensor teacher = at::softmax(teacher_.forward(input) / 4, 2);
  const at::Tensor student_hidden = student_.encode(input);
  const at::Tensor teacher_hidden = teacher_.encode(input);
  double ce = 0;
  double cosine = 0;
  for (std::int64_t row = 0; row < 3; ++row) {
    for (std::int64_t column = 0; column < 7; ++column) {
      if (!input.valid[row][column].item<bool>()) continue;
      const at::Tensor p = teacher[row][column];
      ce += 16 * (p * (p / student[row][column]).log()).sum().item<double>();
      const at::Tensor one = student_hidden[row][column];
      const at::Tensor two = teacher_hidden[row][column];
      cosine += 1 - (one.dot(two) / (one.norm() * two.norm())).item<double>();
    }
  }
  constexpr double kTokens = 13;
  const DistillationLosses found = losses(options);
  EXPECT_NEAR(found.ce.item<double>(), ce / kTokens, 1e-5);
  EXPECT_NEAR(found.cosine.item<double>(), cosine / kTokens, 1e-5);
  const DistillationTargets targets = targets_of(small_labels());
  EXPECT_NEAR(found.mlm.item<double>(),
              masked_lm_loss(student_, student_hidden, targets.labels, targets.masked).item<double>(), 1e-6);
  EXPECT_NEAR(found.total.item<double>(),
              (0.5 * found.mlm + 3 * found.ce + 0.25 * found.cosine).item<double>(), 1e-6);
}

TEST_F(Distillation, TheMaskedTokensAloneMayBeCompared) {
  const DistillationOptions masked{.compared = ComparedTokens::masked};
  const DistillationLosses all = losses({});
  const DistillationLosses some = losses(masked);
  EXPECT_NE(all.ce.item<double>(), some.ce.item<double>());
  EXPECT_NEAR(all.mlm.item<double>(), some.mlm.item<double>(), 1e-6);
  EXPECT_EQ(all.cosine.item<double>(), some.cosine.item<double>());
  const DistillationLosses none = losses(masked, at::full({3, 7}, kNoLabel, at::kLong));
  EXPECT_EQ(none.mlm.item<double>(), 0);
  EXPECT_EQ(none.ce.item<double>(), 0);
  none.total.backward();
  EXPECT_TRUE(std::isfinite(student_.parameters()[0].grad().sum().item<double>()));
}

TEST_F(Distillation, GradientsGoToTheStudentOnly) {
  losses({}).total.backward();
  for (const at::Tensor& parameter : student_.parameters()) EXPECT_TRUE(parameter.grad().defined());
  for (const at::Tensor& parameter : teacher_.parameters()) EXPECT_FALSE(parameter.grad().defined());
}

TEST_F(Distillation, TwoOfAKindAgree) {
  BertForMaskedLM twin(small_bert(3));
  const at::NoGradGuard no_grad;
  const auto parameters = teacher_.named_parameters();
  for (const auto& item : twin.named_parameters()) item.value().copy_(parameters[item.key()]);
  twin.eval();
  const DistillationLosses found =
      distillation_losses(twin, teacher_, small_input(), targets_of(small_labels()), {});
  EXPECT_NEAR(found.ce.item<double>(), 0, 1e-6);
  EXPECT_NEAR(found.cosine.item<double>(), 0, 1e-6);
}

TEST_F(Distillation, ModelsThatCannotBeComparedAreNamed) {
  BertConfig wide = small_bert();
  wide.hidden_size = 12;
  BertForMaskedLM student(wide);
  EXPECT_THAT(error_message([&] {
                distillation_losses(student, teacher_, small_input(), targets_of(small_labels()), {});
              }),
              AllOf(HasSubstr("hidden_size is 8"), HasSubstr("student's 12")));
}

TEST(StudentOfATeacher, HasItsEverySecondLayer) {
  const BertForMaskedLM teacher(small_bert(5));
  const BertConfig config = student_config(teacher.config());
  EXPECT_EQ(config.num_hidden_layers, 3);
  BertForMaskedLM student(config);
  copy_every_second_layer(teacher, student);
  const auto given = teacher.named_parameters();
  const auto taken = student.named_parameters();
  const auto expect_same = [&](const std::string& in_student, const std::string& in_teacher) {
    EXPECT_TRUE(at::equal(taken[in_student], given[in_teacher])) << in_student;
  };
  for (const char* part : {"attention.self.query.weight", "output.dense.weight"}) {
    for (int layer = 0; layer < 3; ++layer) {
      const auto name = [&](int number) {
        return "bert.encoder.layer." + std::to_string(number) + "." + part;
      };
      expect_same(name(layer), name(2 * layer));
    }
  }
  expect_same("bert.embeddings.word_embeddings.weight", "bert.embeddings.word_embeddings.weight");
  expect_same("cls.predictions.transform.dense.weight", "cls.predictions.transform.dense.weight");
}

TEST(StudentOfATeacher, MustFit) {
  const BertForMaskedLM teacher(small_bert(4));
  BertForMaskedLM deep(small_bert(3));
  EXPECT_THAT(error_message([&] { copy_every_second_layer(teacher, deep); }),
              AllOf(HasSubstr("every second of 5"), HasSubstr("the teacher has 4")));
  BertConfig wide = small_bert();
  wide.intermediate_size = 20;
  BertForMaskedLM other(wide);
  EXPECT_THAT(error_message([&] { copy_every_second_layer(teacher, other); }),
              AllOf(HasSubstr("intermediate_size is 16"), HasSubstr("student's 20")));
}

}  // namespace
}  // namespace rueda::examples
