// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/options/bert_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace rueda::examples {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::optional<BertOptions> parsed(std::vector<const char*> flags) {
  flags.insert(flags.begin(), "train_bert");
  return parse_bert_options(static_cast<int>(flags.size()), flags.data());
}

std::string usage_error(const std::vector<const char*>& flags) {
  try {
    parsed(flags);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Options, DefaultsOfTheMainJob) {
  const BertOptions options = *parsed({"--data", "d.json", "--model", "m"});
  EXPECT_EQ(options.steps, 400);
  EXPECT_EQ(options.batch, 4);
  EXPECT_EQ(options.held_out, 8);
  EXPECT_EQ(options.max_length, 256);
  EXPECT_EQ(options.learning_rate, 1e-4);
  EXPECT_EQ(options.warmup, 30);
  EXPECT_EQ(options.clip, 1.0);
  EXPECT_EQ(options.summary, "runs/squad/summary.json");
}

TEST(Options, MaskedLmHasDefaultsOfItsOwn) {
  const BertOptions options = *parsed({"--task", "mlm", "--model", "m"});
  EXPECT_EQ(options.max_length, 128);
  EXPECT_EQ(options.held_out, 64);
  EXPECT_EQ(options.data.filename(), "text_sample.txt");
  EXPECT_EQ(options.output, "runs/mlm");
  EXPECT_TRUE(parsed({"--task", "mlm", "--dummy", "yes"})->source.dummy);
  EXPECT_THAT(usage_error({"--task", "mlm", "--stride", "8"}),
              HasSubstr("of squad or nq, and --task is mlm"));
  EXPECT_THAT(usage_error({"--task", "mlm", "--dummy", "yes", "--cache", "c"}),
              HasSubstr("--cache is given"));
}

TEST(Options, FlagsAreRead) {
  const BertOptions options = *parsed({"--steps=0", "--batch", "3", "--dtype", "float64", "--sync", "never",
                                       "--overlap", "off", "--dropout", "0", "--output", "out", "--optimizer",
                                       "sgd", "--eval-first", "no", "--save", "no"});
  EXPECT_EQ(options.steps, 0);
  EXPECT_EQ(options.batch, 3);
  EXPECT_EQ(options.dtype, ParameterType::float64);
  EXPECT_FALSE(options.synchronize());
  EXPECT_EQ(options.overlap, false);
  EXPECT_EQ(options.dropout, 0.0);
  EXPECT_EQ(options.optimizer, OptimizerKind::sgd);
  EXPECT_EQ(parsed({"--sync", "local_sgd:4"})->schedule, SyncSchedule::local_sgd(4));
  EXPECT_EQ(parsed({"--sync", "barrier"})->sync, TrainOptions::Sync::barrier);
  EXPECT_EQ(parsed({"--sync", "meet"})->sync, TrainOptions::Sync::barrier);  // its name before
  const BertOptions shares =
      *parsed({"--compression", "topk", "--compression-share", "0.1", "--low-rank", "2"});
  EXPECT_EQ(shares.compression, Compression::topk);
  EXPECT_EQ(shares.compression_share, 0.1);
  EXPECT_EQ(shares.low_rank, 2);
  EXPECT_EQ(options.tensorboard, "out/tensorboard");
  EXPECT_FALSE(options.evaluate_first);
  EXPECT_FALSE(options.save);
  EXPECT_FALSE(parsed({"--help"}).has_value());
  EXPECT_THAT(bert_help_text(), HasSubstr("--backward-passes-per-step"));
}

TEST(Options, UsageErrorsSayWhatWouldBeRight) {
  EXPECT_THAT(usage_error({"--nonsense"}), HasSubstr("--nonsense"));
  EXPECT_THAT(usage_error({"--step", "3"}), HasSubstr("--step"));
  EXPECT_THAT(usage_error({"-x"}), HasSubstr("-x"));
  EXPECT_THAT(usage_error({"stray"}), HasSubstr("stray"));
  EXPECT_EQ(usage_error({"--dtype", "int8"}), "--dtype is 'int8'; it must be float32 or bfloat16 or float64");
  EXPECT_THAT(usage_error({"--steps", "many"}), AllOf(HasSubstr("many"), HasSubstr("--steps")));
  EXPECT_THAT(usage_error({"--batch", "0"}), AllOf(HasSubstr("--batch is 0"), HasSubstr("at least 1")));
  EXPECT_THAT(usage_error({"--batch", "-4"}), HasSubstr("--batch"));
  EXPECT_THAT(usage_error({"--dropout", "1"}), HasSubstr("below 1"));
  EXPECT_EQ(usage_error({"--compression-share", "0"}),
            "--compression-share is 0; it must be greater than 0 and at most 1");
  EXPECT_THAT(usage_error({"--low-rank", "-1"}), HasSubstr("--low-rank"));
  EXPECT_THAT(usage_error({"--learning-rate", "nan"}), HasSubstr("--learning-rate"));
  EXPECT_THAT(usage_error({"--steps"}), HasSubstr("--steps"));
  EXPECT_THAT(usage_error({"--task", "sums"}), AllOf(HasSubstr("nq"), HasSubstr("squad")));
  EXPECT_EQ(usage_error({"--augment", "no"}), "--augment is for nq, and --task is squad");
  EXPECT_THAT(usage_error({"--task", "nq", "--augment", "no", "--question-dropout", "0.1"}),
              HasSubstr("--augment no"));
  EXPECT_THAT(usage_error({"--workers", "2000000000"}), HasSubstr("at most 1024"));
  EXPECT_THAT(usage_error({"--cache", "c"}), HasSubstr("--cache is for"));
  EXPECT_THAT(usage_error({"--sync", "never", "--resume"}), HasSubstr("for ranks that synchronise"));
  EXPECT_THAT(usage_error({"--autocast", "bf16", "--dtype", "float64"}), HasSubstr("parameters of float32"));
}

TEST(Options, OfTheDevice) {
  using Kind = DeviceChoice::Kind;
  EXPECT_EQ(parsed({})->device.kind, Kind::cpu);
  EXPECT_EQ(parsed({"--device", "auto"})->device.kind, Kind::automatic);
  const DeviceChoice any = parsed({"--device", "cuda"})->device,
                     second = parsed({"--device", "cuda:1"})->device;
  EXPECT_EQ(any.kind, Kind::cuda);
  EXPECT_FALSE(any.number.has_value());
  EXPECT_EQ(second.kind, Kind::cuda);
  EXPECT_EQ(second.number, 1);
  for (const char* word : {"cpu", "cuda", "cuda:1", "auto"})
    EXPECT_EQ(device_word(parsed({"--device", word})->device), word);
  EXPECT_EQ(usage_error({"--device", "gpu"}), "--device is 'gpu'; it must be cpu or cuda or cuda:N or auto");
  for (const char* wrong : {"cuda:", "cuda:x", "cuda:1x", "cuda:-1", "cuda:99999999999", "cuda:300"})
    EXPECT_THAT(usage_error({"--device", wrong}), HasSubstr("behind cuda: must be the number of a device"))
        << wrong;
  EXPECT_THAT(shared_settings(*parsed({"--device", "cuda:1"})), testing::Contains("--device cuda:1"));
}

TEST(Options, OfElasticTraining) {
  EXPECT_FALSE(parsed({})->elastic);
  EXPECT_TRUE(parsed({"--elastic", "yes"})->elastic);
  EXPECT_THAT(shared_settings(*parsed({"--elastic", "yes"})), testing::Contains("--elastic yes"));
  for (const char* sync : {"never", "barrier", "local_sgd:4", "accumulate:2"})
    EXPECT_THAT(usage_error({"--elastic", "yes", "--sync", sync}), HasSubstr("is for --sync every_step"));
  EXPECT_THAT(usage_error({"--elastic", "yes", "--device", "auto"}), HasSubstr("name cpu or cuda"));
}

TEST(Options, AVocabularyIsForARandomStart) {
  EXPECT_EQ(parsed({})->source.vocabulary, "");
  EXPECT_EQ(parsed({"--vocabulary", "v.txt"})->source.vocabulary, "v.txt");
  EXPECT_EQ(usage_error({"--vocabulary", "v.txt", "--model", "m"}),
            "--vocabulary is for a model that starts at random, and --model names a checkpoint with its own");
}

TEST(Options, OfQuestions) {
  EXPECT_EQ(parsed({})->source.on_bad, OnBadItems::refuse);
  EXPECT_FALSE(parsed({})->null_score_threshold.has_value());
  const BertOptions options = *parsed({"--bad-items", "skip", "--null-score-threshold", "-1.5",
                                       "--predictions", "p.json", "--held-out", "0"});
  EXPECT_EQ(options.source.on_bad, OnBadItems::skip);
  EXPECT_EQ(options.null_score_threshold, -1.5);
  EXPECT_EQ(options.predictions, "p.json");
  EXPECT_EQ(options.held_out, 0);
  for (const char* task : {"nq", "mlm"})
    EXPECT_EQ(parsed({"--task", task, "--bad-items", "skip"})->source.on_bad, OnBadItems::skip);
  EXPECT_EQ(usage_error({"--bad-items", "keep"}), "--bad-items is 'keep'; it must be refuse or skip");
  EXPECT_EQ(usage_error({"--null-score-threshold", "inf"}),
            "--null-score-threshold is inf; it must be finite");
  EXPECT_EQ(usage_error({"--dummy", "yes", "--bad-items", "skip"}),
            "--dummy yes reads no file, and --bad-items is given");
  EXPECT_EQ(usage_error({"--task", "nq", "--predictions", "p"}),
            "--predictions is for squad, and --task is nq");
  EXPECT_EQ(usage_error({"--dummy", "yes", "--predictions", "p"}),
            "--dummy yes has no questions of a file, and --predictions is given");
}

TEST(Options, OfNaturalQuestions) {
  const BertOptions options = *parsed({"--task", "nq", "--held-out", "0", "--augment", "no", "--model", "m"});
  EXPECT_EQ(options.max_length, 512);
  EXPECT_EQ(options.held_out, 0);
  EXPECT_FALSE(options.augment);
  EXPECT_EQ(options.unknown_share, 0.02);
  EXPECT_EQ(parsed({"--task", "nq"})->data.filename(), "nq_sample.jsonl");
}

TEST(Options, AFolderToResumeFromMayBeLeftOut) {
  EXPECT_FALSE(parsed({"--steps", "1"})->resume.has_value());
  EXPECT_EQ(parsed({"--resume"})->resume, "");
  EXPECT_EQ(parsed({"--resume", "--steps", "1"})->resume, "");
  EXPECT_EQ(parsed({"--resume", "there"})->resume, "there");
  EXPECT_EQ(parsed({"--resume=there"})->resume, "there");
  EXPECT_EQ(parsed({"--output", "out"})->checkpoints(), "out/checkpoints");
}

TEST(Schedule, RisesThenFallsToZero) {
  TrainOptions options;
  options.learning_rate = 1;
  options.steps = 110;
  options.warmup = 10;
  EXPECT_DOUBLE_EQ(learning_rate_at(0, options), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(9, options), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(10, options), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(60, options), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(109, options), 0.01);
  options.warmup = 0;
  EXPECT_DOUBLE_EQ(learning_rate_at(0, options), 1.0);
  options.warmup = 200;
  EXPECT_DOUBLE_EQ(learning_rate_at(99, options), 0.5);
}

}  // namespace
}  // namespace rueda::examples
