// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/options/bert_options.h"

#include "examples/lib/data/files/sample_file.h"

namespace rueda::examples {
namespace {

constexpr const char* kUsage =
    "usage: train_bert [flags]\n"
    "Trains a BERT, by one process or by those that ruedarun starts:\n"
    "  ruedarun -np 2 train_bert --data train.json --model CHECKPOINT\n"
    "Without --model a small random BERT learns the sample that comes with Rueda.\n\nflags";

constexpr Choices<const char*, 3> kTasks{{{"squad", "squad"}, {"nq", "nq"}, {"mlm", "mlm"}}};

Flags bert_flags(BertOptions& options) {
  Flags flags("train_bert", kUsage);
  flags.choice("task", options.task, kTasks, "NAME",
               "what to learn: squad (the default): mark the answer to a question; nq: that in long "
               "documents, and its type; "
               "mlm: guess masked tokens");
  flags.path("data", options.data, "FILE",
             "squad: SQuAD JSON, v1.1 or v2.0; nq: simplified Natural Questions, JSON lines, also gzip; mlm: "
             "plain text, "
             "WikiText, or reviews separated by tabs from their labels; default: a sample");
  flags.path("model", options.model, "DIR",
             "checkpoint: config.json, model.safetensors, tokenizer.json or vocab.txt");
  flags.integer("held-out", options.held_out, 0, "N",
                "last articles, of nq examples, of mlm windows, kept for evaluation [8; without --model 4; "
                "nq 100; 20; mlm 64; "
                "32]; squad, nq: 0 measures on what is trained on");
  flags.integer("max-length", options.max_length, 8, "N",
                "tokens in a window [256; without --model 128; nq 512; 128; mlm 128; 64]");
  flags.integer("stride", options.stride, 0, "N",
                "squad, nq: tokens that windows share [a quarter of --max-length]");
  flags.finite(
      "null-score-threshold", options.null_score_threshold, "X",
      "squad v2.0: no answer is predicted where its score surpasses the best span's by more than that [0]");
  flags.path("predictions", options.predictions, "FILE",
             "squad: the answers of the last evaluation, JSON of text by id, as SQuAD's scripts read it");
  flags.share("unknown-share", options.unknown_share, "X",
              "nq: of the windows without answer, how many are trained on [0.02; without --model 1]");
  flags.choice("augment", options.augment, kYesNo, "yes|no",
               "nq: windows are moved and words of questions masked, anew at each reading [yes]");
  flags.number("question-dropout", options.question_dropout, "P",
               "nq: of the words of a question, how many are masked [0.05]", 1);
  add_data_flags(flags, options.source);
  add_training_flags(flags, options);
  return flags;
}

// The settings that differ without --model, when a small random BERT learns.
void set_small_defaults(BertOptions& options) {
  options.held_out = 4;
  options.batch = 16;
  options.max_length = 128;
  options.learning_rate = 1e-3;
}

void set_mlm_defaults(BertOptions& options, bool small) {
  options.held_out = small ? 32 : 64;
  options.max_length = small ? 64 : 128;
}

void set_nq_defaults(BertOptions& options, bool small) {
  options.held_out = small ? 20 : 100;
  options.max_length = small ? 128 : 512;
  if (small) options.unknown_share = 1;
}

// Flags that some tasks have, given for another.
void check_flags_of_tasks(const Flags& flags, const std::string& task) {
  const auto only = [&](const char* flag, bool fits, const char* whose) {
    if (flags.given(flag) && !fits)
      throw UsageError(fmt::format("--{} is for {}, and --task is {}", flag, whose, task));
  };
  only("stride", task != "mlm", "windows that share tokens, of squad or nq");
  only("cache", task != "squad", "what is kept tokenized, of nq or mlm");
  only("null-score-threshold", task == "squad", "squad");
  only("predictions", task == "squad", "squad");
  for (const char* flag : {"unknown-share", "augment", "question-dropout"}) only(flag, task == "nq", "nq");
}

void check_together(const Flags& flags, const BertOptions& options) {
  check_flags_of_tasks(flags, options.task);
  check_data_flags(flags, options.source);
  for (const char* flag : {"null-score-threshold", "predictions"}) {
    if (options.source.dummy && flags.given(flag))
      throw UsageError(fmt::format("--dummy yes has no questions of a file, and --{} is given", flag));
  }
  if (options.task == "mlm" && options.held_out == 0)
    throw UsageError("--held-out is 0; with --task mlm it must be at least 1 and below 2^31");
  if (!options.augment && flags.given("question-dropout"))
    throw UsageError("--question-dropout is a part of what --augment no leaves out");
}

const char* sample_of(const std::string& task) {
  if (task == "nq") return "nq_sample.jsonl";
  return task == "mlm" ? "text_sample.txt" : "squad_sample.json";
}

}  // namespace

std::string bert_help_text() {
  BertOptions defaults;
  return bert_flags(defaults).help();
}

std::optional<BertOptions> parse_bert_options(int argument_count, const char* const* arguments) {
  BertOptions options;
  Flags flags = bert_flags(options);
  if (!flags.parse(argument_count, arguments)) return std::nullopt;
  flags.apply("task");
  const bool small = !flags.given("model");
  if (small) set_small_defaults(options);
  if (options.task == "mlm") set_mlm_defaults(options, small);
  if (options.task == "nq") set_nq_defaults(options, small);
  flags.apply();
  check_together(flags, options);
  if (!flags.given("stride")) options.stride = options.max_length / 4;
  complete_training_options(flags, options);
  if (options.data.empty()) options.data = sample_file(sample_of(options.task));
  return options;
}

}  // namespace rueda::examples
