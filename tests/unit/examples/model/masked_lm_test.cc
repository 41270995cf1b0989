// SPDX-License-Identifier: Apache-2.0
// The masked-LM head: tied to the embeddings, and a loss over the labelled tokens alone.
#include "examples/lib/model/masked_lm.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/examples/model/small_bert.h"

namespace rueda::examples {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

TEST(MaskedLm, TheDecoderIsTheWordEmbeddings) {
  BertForMaskedLM model(small_bert());
  model.eval();
  const at::Tensor before = model.forward(small_input());
  EXPECT_THAT(before.sizes().vec(), ElementsAre(3, 7, 30));
  {
    const at::NoGradGuard no_grad;
    model.named_parameters()["bert.embeddings.word_embeddings.weight"][29]
        .zero_();  // a token not in the input
  }
  const at::Tensor after = model.forward(small_input());
  EXPECT_TRUE(at::equal(before.narrow(2, 0, 29), after.narrow(2, 0, 29)));
  EXPECT_EQ(after.select(2, 29).abs().max().item<double>(), 0);  // its bias alone
}

TEST(MaskedLm, ParametersHaveHuggingFacesNamesAndTheTiedOneIsThereOnce) {
  const BertForMaskedLM model(small_bert());
  std::vector<std::string> head;
  for (const auto& item : model.named_parameters()) {
    if (!item.key().starts_with("bert.")) head.push_back(item.key());
  }
  EXPECT_THAT(head, testing::UnorderedElementsAre(
                        "cls.predictions.bias", "cls.predictions.transform.dense.weight",
                        "cls.predictions.transform.dense.bias", "cls.predictions.transform.LayerNorm.weight",
                        "cls.predictions.transform.LayerNorm.bias"));
  EXPECT_THAT(model.units(), Not(Contains("bert.embeddings")));
}

TEST(MaskedLm, TheBiasFollowsAConversion) {
  BertForMaskedLM model(small_bert());
  model.to(at::kDouble);
  EXPECT_EQ(model.forward(small_input()).scalar_type(), at::kDouble);
}

TEST(MaskedLm, TheLossIsTheMeanOverLabelledTokens) {
  BertForMaskedLM model(small_bert());
  model.eval();
  const BertInput input = small_input();
  at::Tensor labels = at::full({3, 7}, kNoLabel, at::kLong);
  labels[0][2] = 11;
  labels[1][3] = 4;
  labels[2][1] = 29;
  const at::Tensor chosen_only =
      masked_lm_loss(model, model.encode(input), labels, indices_of(labels.ne(kNoLabel)));
  const at::Tensor log_likelihood = at::log_softmax(model.forward(input), 2);
  const double wanted =
      -(log_likelihood[0][2][11] + log_likelihood[1][3][4] + log_likelihood[2][1][29]).item<double>() / 3;
  EXPECT_NEAR(chosen_only.item<double>(), wanted, 1e-6);
}

TEST(MaskedLm, WithoutLabelsLossAndGradientsAreZero) {
  BertForMaskedLM model(small_bert());
  const at::Tensor labels = at::full({3, 7}, kNoLabel, at::kLong);
  const at::Tensor loss =
      masked_lm_loss(model, model.encode(small_input()), labels, indices_of(labels.ne(kNoLabel)));
  loss.backward();
  EXPECT_EQ(loss.item<double>(), 0);
  for (const auto& item : model.named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_EQ(item.value().grad().abs().max().item<double>(), 0) << item.key();
  }
}

}  // namespace
}  // namespace rueda::examples
