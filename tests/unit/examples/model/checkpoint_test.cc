// SPDX-License-Identifier: Apache-2.0
// Checkpoints of every head: read back, read by another head, and what is refused.
#include "examples/lib/model/checkpoint.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <span>

#include "examples/lib/model/masked_lm.h"
#include "examples/lib/model/natural_questions.h"
#include "tests/support/scratch_folder.h"
#include "tests/unit/examples/model/small_bert.h"

namespace rueda::examples {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class Checkpoint : public testing::Test {
 protected:
  ModelTensors saved(const BertWithHead& model) {
    save_checkpoint(scratch_.path() / "saved", model, tokenizer_);
    return ModelTensors::open(scratch_.path() / "saved");
  }
  // A file of the tensors of `file`, of which `change` may alter the list.
  template <class Change>
  ModelTensors altered(const ModelTensors& file, Change&& change) {
    std::vector<SafetensorEntry> entries = file.entries();
    change(entries);
    write_safetensors(scratch_.path() / "altered.safetensors", entries, {});
    return ModelTensors::from_file(scratch_.path() / "altered.safetensors");
  }

  ScratchFolder scratch_;
  const WordPieceTokenizer tokenizer_ = WordPieceTokenizer::from_file(
      scratch_.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhouse\n"), /*lower_case=*/false);
};

SafetensorEntry& named(std::vector<SafetensorEntry>& entries, const std::string& name) {
  return *std::ranges::find(entries, name, &SafetensorEntry::name);
}

TEST_F(Checkpoint, KeepsTheVocabularyThoughItsFileIsGone) {
  std::filesystem::remove(scratch_.path() / "vocab.txt");
  saved(BertForMaskedLM(small_bert()));
  const auto read = WordPieceTokenizer::from_file(scratch_.path() / "saved" / "vocab.txt", false);
  ASSERT_EQ(read.vocab_size(), tokenizer_.vocab_size());
  EXPECT_EQ(read.token(5), "house");
}

TEST_F(Checkpoint, EveryHeadIsReadBackExactly) {
  const auto check = [&]<class Model>(std::in_place_type_t<Model>) {
    const Model written(small_bert());
    Model read(small_bert());
    ASSERT_NE(parameters_hash(written), parameters_hash(read));
    const LoadReport report = load_parameters(read, saved(written));
    EXPECT_EQ(parameters_hash(written), parameters_hash(read)) << read.architecture();
    EXPECT_THAT(report.fresh, IsEmpty());
    EXPECT_THAT(report.unused, IsEmpty());
    Model again(small_bert());
    load_parameters(again, scratch_.path() / "saved");
    EXPECT_EQ(parameters_hash(written), parameters_hash(again)) << again.architecture();
  };
  check(std::in_place_type<BertForQuestionAnswering>);
  check(std::in_place_type<BertForMaskedLM>);
  check(std::in_place_type<BertForNaturalQuestions>);
}

TEST_F(Checkpoint, AnotherHeadTakesTheEncoderAndWhatItKnows) {
  BertForNaturalQuestions model(small_bert());
  const LoadReport report = load_parameters(model, saved(BertForQuestionAnswering(small_bert())));
  EXPECT_THAT(report.fresh, UnorderedElementsAre("bert.pooler.dense.weight", "bert.pooler.dense.bias",
                                                 "classifier.weight", "classifier.bias"));
  BertForQuestionAnswering smaller(small_bert());
  EXPECT_THAT(load_parameters(smaller, saved(model)).unused, testing::SizeIs(4));
}

TEST_F(Checkpoint, TheDecodersBiasAndACopyOfTheEmbeddingsAreKnown) {
  const BertForMaskedLM written(small_bert());
  const ModelTensors file = saved(written);
  const ModelTensors other = altered(file, [](auto& entries) {
    SafetensorEntry decoder = named(entries, "bert.embeddings.word_embeddings.weight");
    decoder.name = "cls.predictions.decoder.weight";
    named(entries, "cls.predictions.bias").name = "cls.predictions.decoder.bias";
    entries.push_back(decoder);
  });
  BertForMaskedLM read(small_bert());
  EXPECT_THAT(load_parameters(read, other).unused, IsEmpty());
  EXPECT_EQ(parameters_hash(written), parameters_hash(read));
}

TEST_F(Checkpoint, ADecoderThatIsNotTiedIsRefused) {
  const BertForMaskedLM written(small_bert());
  const ModelTensors file = saved(written);
  const BertForMaskedLM another(small_bert());
  const at::Tensor weight = another.encoder().word_embeddings();
  const ModelTensors other = altered(file, [&](auto& entries) {
    SafetensorEntry decoder = named(entries, "bert.embeddings.word_embeddings.weight");
    decoder.name = "cls.predictions.decoder.weight";
    decoder.data = {static_cast<const std::byte*>(weight.const_data_ptr()), weight.nbytes()};
    entries.push_back(decoder);
  });
  BertForMaskedLM read(small_bert());
  EXPECT_THAT(error_message([&] { load_parameters(read, other); }),
              testing::AllOf(HasSubstr("altered.safetensors: cls.predictions.decoder.weight differs"),
                             HasSubstr("tied to the word embeddings")));
}

TEST_F(Checkpoint, TwoDifferentBiasesOfTheDecoderAreRefused) {
  const ModelTensors file = saved(BertForMaskedLM(small_bert()));
  const at::Tensor bias = at::ones({small_bert().vocab_size});
  const auto with_decoder_bias = [&](std::span<const std::byte> bytes) {
    return altered(file, [&](auto& entries) {
      SafetensorEntry second = named(entries, "cls.predictions.bias");
      second.name = "cls.predictions.decoder.bias";
      if (!bytes.empty()) second.data = bytes;
      entries.push_back(second);
    });
  };
  BertForMaskedLM read(small_bert());
  EXPECT_THAT(load_parameters(read, with_decoder_bias({})).unused, IsEmpty());
  const ModelTensors other =
      with_decoder_bias({static_cast<const std::byte*>(bias.const_data_ptr()), bias.nbytes()});
  EXPECT_THAT(
      error_message([&] { load_parameters(read, other); }),
      HasSubstr("altered.safetensors: cls.predictions.decoder.bias differs from cls.predictions.bias; "));
  BertForQuestionAnswering without_decoder(small_bert());
  EXPECT_THAT(load_parameters(without_decoder, other).unused,
              testing::Contains("cls.predictions.decoder.bias"));
}

TEST_F(Checkpoint, ValuesThatAreNotFiniteAreNamed) {
  const ModelTensors file = saved(BertForMaskedLM(small_bert()));
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
    const std::string name = "cls.predictions.bias";
    at::Tensor bias = at::zeros({small_bert().vocab_size});
    bias[1] = bad;
    const ModelTensors other = altered(file, [&](auto& entries) {
      named(entries, name).data = {static_cast<const std::byte*>(bias.const_data_ptr()), bias.nbytes()};
    });
    BertForMaskedLM read(small_bert());
    EXPECT_THAT(error_message([&] { load_parameters(read, other); }),
                HasSubstr("altered.safetensors: the tensor " + name + " has values that are not finite"));
    BertForQuestionAnswering without_bias(small_bert());
    EXPECT_THAT(load_parameters(without_bias, other).unused, testing::Contains(name));
  }
}

TEST_F(Checkpoint, AnEncoderWithoutALayerIsNamed) {
  BertForMaskedLM deeper(small_bert(3));
  const ModelTensors file = saved(BertForMaskedLM(small_bert(2)));
  EXPECT_THAT(error_message([&] { load_parameters(deeper, file); }),
              testing::AllOf(HasSubstr("bert.encoder.layer.2."), HasSubstr("BERT of 3 layers")));
}

}  // namespace
}  // namespace rueda::examples
